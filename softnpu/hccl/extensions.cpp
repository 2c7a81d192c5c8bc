#include "hccl/extensions.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "hccl/communicator.h"

namespace softnpu::hccl {
namespace {

// A pointer, because static thread-local memory is scarce in a library that is loaded late. Null while the thread has no notes.
std::vector<Note>*& notes() {
  static thread_local std::vector<Note>* all = nullptr;
  return all;
}

}  // namespace

Note current_note() { return notes() == nullptr ? Note{} : notes()->back(); }

Note current_note(size_t index, size_t items) {
  return notes() == nullptr || notes()->size() != items ? Note{} : (*notes())[index];
}

}  // namespace softnpu::hccl

void HcclSoftnpuNote(const char* text) {
  std::vector<softnpu::hccl::Note>*& all = softnpu::hccl::notes();
  if (text == nullptr) {
    delete std::exchange(all, nullptr);
    return;
  }
  softnpu::hccl::Note note{};
  std::memcpy(note.data(), text, std::min(std::strlen(text), note.size() - 1));
  if (all == nullptr) all = new std::vector<softnpu::hccl::Note>;
  all->push_back(note);
}

bool HcclSoftnpuDescribe(HcclComm comm, char* text, size_t bytes) {
  const auto communicator = softnpu::hccl::Communicator::find(comm);
  if (communicator == nullptr || bytes == 0) return false;
  const softnpu::Status failure = communicator->failure();
  const std::string words = failure.ok() ? communicator->waiting() : std::string(failure.message());
  const size_t length = std::min(words.size(), bytes - 1);
  std::memcpy(text, words.data(), length);
  text[length] = '\0';
  return true;
}
