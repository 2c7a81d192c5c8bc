// Functions of this library that HCCL lacks. A client looks them up by name and must also work without them.
//
//   HcclSoftnpuNote("AVG, channels_last");     // holds for the calls of this thread until HcclSoftnpuNote(NULL)
//   HcclAllReduce(...);                        // an error on all ranks if their notes differ
//   HcclSoftnpuNote(NULL);
//   HcclSoftnpuDescribe(comm, text, sizeof text);   // why it failed, or which ranks it waits for
#pragma once

#include <array>
#include <cstddef>

#include "hccl/header.h"

namespace softnpu::hccl {

using Note = std::array<char, sizeof Header::note>;

// current_note() returns the note for the next call of this thread, which is the newest note. current_note(index, items) returns
// the note of an item of a batch: note number `index` if there are as many notes as items, else an empty note.
Note current_note();
Note current_note(size_t index, size_t items);

}  // namespace softnpu::hccl

extern "C" {

// Adds a note of this thread, cut to 47 bytes. Null removes all its notes.
__attribute__((visibility("default"))) void HcclSoftnpuNote(const char* text);

// Writes the failure of the communicator. Without a failure, writes the ranks that its operations have waited for, if they have
// waited for at least half a second, or an empty text. False if `comm` is not a communicator.
__attribute__((visibility("default"))) bool HcclSoftnpuDescribe(HcclComm comm, char* text, size_t bytes);

}  // extern "C"
