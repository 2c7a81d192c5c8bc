// Messages of failed tasks, which have SOFTNPU_TASK_MESSAGE bytes.
//
//   write_message(message, status.message());     // in SoftnpuTaskKind::run
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/driver.h"

namespace softnpu {

namespace internal {

// Whether `byte` is a continuation byte of UTF-8.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace internal

// `sentence` in at most `bytes` bytes. A longer sentence keeps its begin, which names the operator, and its end, which has the
// reason. No UTF-8 character is cut in two.
inline std::string shortened(std::string_view sentence, size_t bytes) {
  constexpr std::string_view kGap = " ... ";
  if (sentence.size() <= bytes) return std::string(sentence);
  if (bytes <= kGap.size()) return std::string(sentence.substr(0, bytes));
  size_t head = (bytes - kGap.size()) / 3;
  size_t tail = sentence.size() - (bytes - kGap.size() - head);
  while (head > 0 && internal::continues_character(sentence[head])) --head;
  while (tail < sentence.size() && internal::continues_character(sentence[tail])) ++tail;
  return std::string(sentence.substr(0, head)).append(kGap).append(sentence.substr(tail));
}

// Writes the message of SoftnpuTaskKind::run about its failure.
inline void write_message(char* message, std::string_view sentence) {
  const std::string fitting = shortened(sentence, SOFTNPU_TASK_MESSAGE - 1);
  std::memcpy(message, fitting.c_str(), fitting.size() + 1);
}

}  // namespace softnpu
