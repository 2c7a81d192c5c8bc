// Functions of this library that HCCL does not have. A client looks them up by name, and does without them if they are missing.
//
//   HcclSoftnpuNote("AVG, channels_last");     // what the calls of this thread mean, until HcclSoftnpuNote(NULL)
//   HcclAllReduce(...);                        // an error on all ranks if their notes differ
//   HcclSoftnpuNote(NULL);
//   HcclSoftnpuDescribe(comm, text, sizeof text);   // why it failed, or which ranks it waits for
#pragma once

#include <array>
#include <cstddef>

#include "hccl/header.h"

namespace softnpu::hccl {

using Note = std::array<char, sizeof Header::note>;

// The note of the next call of this thread: the newest one. Of item `index` of a batch of `items`: note number `index`, if there
// are as many notes as items.
Note current_note();
Note current_note(size_t index, size_t items);

}  // namespace softnpu::hccl

extern "C" {

// Adds a note; null forgets all notes of this thread. At most 47 bytes of it are used.
__attribute__((visibility("default"))) void HcclSoftnpuNote(const char* text);

// Writes the failure of the communicator, or else the ranks that its operations have waited for since half a second; nothing if
// there is neither. False if `comm` is no communicator.
__attribute__((visibility("default"))) bool HcclSoftnpuDescribe(HcclComm comm, char* text, size_t bytes);

}  // extern "C"
