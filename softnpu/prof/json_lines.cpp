#include "prof/json_lines.h"

#include <charconv>
#include <cstdio>

#include "runtime/profile/record_names.h"

namespace softnpu::prof {
namespace {

constexpr int64_t kWritten = int64_t{1} << 40;

template <typename Number>
void append_number(std::string& line, Number number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  line.append(digits, end);
}

template <typename Number>
void append_field(std::string& line, const char* name, Number number) {
  if (number == 0) return;
  line.append(",\"").append(name).append("\":");
  append_number(line, number);
}

void append_field(std::string& line, const char* name, const char* word) {
  line.append(",\"").append(name).append("\":\"").append(word).append("\"");
}

// Begins a line. The caller appends its end.
void begin_line(std::string& lines, std::string_view name, uint32_t thread, uint64_t start_ns, uint64_t end_ns) {
  lines += "{\"name\":";
  append_quoted(lines, name);
  append_field(lines, "thread", thread);
  append_field(lines, "start_ns", start_ns);
  append_field(lines, "end_ns", end_ns);
}

// The length of the UTF-8 character at the begin of `text`; 0 if there is none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t index) { return static_cast<unsigned char>(text[index]); };
  const size_t length = byte(0) < 0x80   ? 1
                        : byte(0) < 0xC2 ? 0
                        : byte(0) < 0xE0 ? 2
                        : byte(0) < 0xF0 ? 3
                        : byte(0) < 0xF5 ? 4
                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xC0) != 0x80) return 0;
  }
  if ((byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F)) return 0;
  if ((byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

// Appends the inputs or the outputs of a task. Each is [shape, type, format].
void append_tensors(std::string& line, const char* name, const int64_t* words, uint32_t count, bool written) {
  bool is_first = true;
  for (uint32_t at = 0; at < count;) {
    const int64_t head = words[at++];
    const auto rank = uint32_t(head & 0xff);
    if (((head & kWritten) != 0) == written) {
      line.append(is_first ? ",\"" : ",");
      if (is_first) line.append(name).append("\":[");
      is_first = false;
      line += "[[";
      for (uint32_t dim = 0; dim < rank; ++dim) {
        if (dim > 0) line += ',';
        append_number(line, words[at + dim]);
      }
      line.append("],\"").append(data_type_name(head >> 8 & 0xffff)).append("\",\"");
      line.append(format_name(head >> 24 & 0xffff)).append("\"]");
    }
    at += rank;
  }
  if (!is_first) line += ']';
}

}  // namespace

void append_quoted(std::string& line, std::string_view text) {
  line += '"';
  while (!text.empty()) {
    const size_t length = character_length(text);
    const char letter = text[0];
    if (length == 0) {
      line += "\\ufffd";
    } else if (letter == '"' || letter == '\\') {
      (line += '\\') += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(letter));
      line += escape;
    } else {
      line.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  line += '"';
}

void append_task(std::string& lines, const SoftnpuTaskRecord& task, const int64_t* tensors) {
  begin_line(lines, task.name, task.thread, task.start_ns, task.end_ns);
  append_field(lines, "kind", class_name(class_of(task.name)));
  append_field(lines, "device", task.device);
  append_field(lines, "stream", task.stream == SOFTNPU_NO_STREAM ? int64_t{-1} : int64_t{task.stream});
  append_field(lines, "task", task.task);
  append_field(lines, "enqueue_ns", task.enqueue_ns);
  append_field(lines, "correlation", task.correlation);
  append_field(lines, "external", task.external);
  append_field(lines, "bytes", task.bytes);
  if (task.direction != 0) append_field(lines, "direction", direction_name(task.direction));
  append_tensors(lines, "inputs", tensors, task.words, false);
  append_tensors(lines, "outputs", tensors, task.words, true);
  lines += "}\n";
}

void append_call(std::string& lines, const SoftnpuCallRecord& call) {
  begin_line(lines, call.name, call.thread, call.start_ns, call.end_ns);
  append_field(lines, "correlation", call.correlation);
  lines += "}\n";
}

void append_mark(std::string& lines, const Batch::Mark& mark) {
  begin_line(lines, mark.text, mark.record.thread, mark.record.start_ns, mark.record.end_ns);
  if (mark.record.stream != SOFTNPU_NO_STREAM) {
    lines += ",\"stream\":";  // not append_field(), which leaves out 0: the default of this field is no stream
    append_number(lines, mark.record.stream);
  }
  lines += "}\n";
}

void append_step(std::string& lines, uint64_t number, uint64_t start_ns, uint64_t end_ns) {
  lines += "{\"number\":";
  append_number(lines, number);
  append_field(lines, "start_ns", start_ns);
  append_field(lines, "end_ns", end_ns);
  lines += "}\n";
}

}  // namespace softnpu::prof
