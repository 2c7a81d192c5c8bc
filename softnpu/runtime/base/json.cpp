#include "runtime/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace softnpu {
namespace {

constexpr int kMostLevels = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

}  // namespace

// Recursive descent. Each read function moves `next_` past the text that it read; on failure `next_` is the place of the error.
class Json::Reader {
 public:
  // With `mistakes`, the reader accepts the mistakes that parse_leniently() lists, and appends them to it.
  explicit Reader(std::string_view document, std::vector<std::string>* mistakes = nullptr)
      : document_(document), mistakes_(mistakes) {}

  bool read_document(Json& out) {
    skip_space();
    if (!read_value(out, 0)) return false;
    skip_space();
    return next_ == document_.size() || fail("expected the end of the document");
  }

  Status failure() const { return Status(ACL_ERROR_PARSE_FILE, located(reason_)); }

 private:
  bool fail(const char* reason) {
    reason_ = reason;
    return false;
  }

  // The reason with the line and column of `next_`.
  std::string located(const char* reason) const {
    const std::string_view before = document_.substr(0, next_);
    const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::string_view last_line = before.substr(before.rfind('\n') + 1);
    const auto begins_character = [](char c) { return (c & 0xC0) != 0x80; };
    const size_t column = 1 + std::count_if(last_line.begin(), last_line.end(), begins_character);
    return text(line, ":", column, ": ", reason);
  }

  // Accepts a mistake at `next_` if the reader is lenient.
  bool accept_mistake(const char* reason) {
    if (mistakes_ == nullptr) return false;
    mistakes_->push_back(located(reason));
    return true;
  }

  char peek() const { return next_ < document_.size() ? document_[next_] : '\0'; }

  bool accept(char wanted) {
    if (next_ >= document_.size() || document_[next_] != wanted) return false;
    ++next_;
    return true;
  }

  bool accept_word(std::string_view word) {
    if (!document_.substr(next_).starts_with(word)) return false;
    next_ += word.size();
    return true;
  }

  void skip_space() {
    for (;;) {
      const size_t found = document_.find_first_not_of(" \t\r\n", next_);
      next_ = found == std::string_view::npos ? document_.size() : found;
      const bool is_comment = peek() == '#' || document_.substr(next_).starts_with("//");
      if (!is_comment || !accept_mistake("there is a comment")) return;
      next_ = std::min(document_.find('\n', next_), document_.size());
    }
  }

  // Called after a value in an object or array. True if another value follows.
  bool more_follows(char end) {
    skip_space();
    if (accept(',')) {
      skip_space();
      return peek() != end || !accept_mistake("there is a comma before the end");
    }
    const bool begins_value = peek() == '"' || (end == ']' && (peek() == '{' || peek() == '['));
    return begins_value && accept_mistake("',' is missing");
  }

  bool accept_end(char end, const char* reason) {
    if (accept(end)) return true;
    if (next_ == document_.size() && accept_mistake(end == '}' ? "'}' is missing" : "']' is missing")) return true;
    return fail(reason);
  }

  bool read_value(Json& out, int level) {
    const char c = peek();
    if (c == '{') return read_object(out, level);
    if (c == '[') return read_array(out, level);
    if (c == '"') {
      out.kind_ = Kind::kString;
      return read_string(out.string_);
    }
    if (c == '-' || is_digit(c)) return read_number(out);
    if (accept_word("true")) return read_boolean(out, true);
    if (accept_word("false")) return read_boolean(out, false);
    if (accept_word("null")) return true;
    return fail(next_ == document_.size() ? "expected a value before the end" : "expected a value");
  }

  bool read_boolean(Json& out, bool value) {
    out.kind_ = Kind::kBoolean;
    out.boolean_ = value;
    return true;
  }

  bool read_object(Json& out, int level) {
    if (level == kMostLevels) return fail("more than 64 levels are nested");
    ++next_;
    out.kind_ = Kind::kObject;
    skip_space();
    if (accept('}')) return true;
    do {
      skip_space();
      const size_t begin = next_;
      std::string name;
      if (peek() != '"') return fail("expected a name in double quotes");
      if (!read_string(name)) return false;
      if (out.object_.contains(name)) {
        next_ = begin;
        return fail("the name occurs twice in its object");
      }
      skip_space();
      if (!accept(':')) return fail("expected ':' after the name");
      skip_space();
      if (!read_value(out.object_[std::move(name)], level + 1)) return false;
    } while (more_follows('}'));
    return accept_end('}', "expected ',' or '}'");
  }

  bool read_array(Json& out, int level) {
    if (level == kMostLevels) return fail("more than 64 levels are nested");
    ++next_;
    out.kind_ = Kind::kArray;
    skip_space();
    if (accept(']')) return true;
    do {
      skip_space();
      if (!read_value(out.array_.emplace_back(), level + 1)) return false;
    } while (more_follows(']'));
    return accept_end(']', "expected ',' or ']'");
  }

  bool read_string(std::string& out) {
    ++next_;
    while (!accept('"')) {
      if (next_ == document_.size()) return fail("the text has no closing quote");
      const char c = document_[next_];
      if (static_cast<unsigned char>(c) < 0x20) return fail("a control character in a text must be escaped");
      if (c == '\\') {
        if (!read_escape(out)) return false;
        continue;
      }
      out += c;
      ++next_;
    }
    return true;
  }

  bool read_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const size_t begin = next_++;
    if (accept('u')) return read_code_point(out, begin);
    const size_t index = peek() == '\0' ? std::string_view::npos : kNames.find(peek());
    if (index == std::string_view::npos) {
      next_ = begin;
      return fail("unknown escape");
    }
    ++next_;
    out += kMeanings[index];
    return true;
  }

  // Reads one code point after "\u": one escape, or two that form a surrogate pair.
  bool read_code_point(std::string& out, size_t begin) {
    uint32_t code = 0;
    bool good = read_hex(code) && (code < 0xDC00 || code > 0xDFFF);
    if (good && code >= 0xD800 && code < 0xDC00) {
      uint32_t low = 0;
      good = accept_word("\\u") && read_hex(low) && low >= 0xDC00 && low <= 0xDFFF;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (!good) {
      next_ = begin;
      return fail("\\u needs four hexadecimal digits, and surrogates come in pairs");
    }
    append_utf8(out, code);
    return true;
  }

  bool read_hex(uint32_t& out) {
    const std::string_view digits = document_.substr(next_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    if (error != std::errc() || end != digits.data() + 4) return false;
    next_ += 4;
    return true;
  }

  bool read_digits() {
    if (!is_digit(peek())) return fail("expected a digit");
    while (is_digit(peek())) ++next_;
    return true;
  }

  bool read_number(Json& out) {
    const size_t begin = next_;
    accept('-');
    if (!accept('0') && !read_digits()) return false;
    if (is_digit(peek())) return fail("a number must not begin with 0");
    if (accept('.') && !read_digits()) return false;
    if (accept('e') || accept('E')) {
      if (!accept('+')) accept('-');
      if (!read_digits()) return false;
    }
    out.kind_ = Kind::kNumber;
    if (std::from_chars(document_.data() + begin, document_.data() + next_, out.number_).ec != std::errc()) {
      next_ = begin;
      return fail("the number does not fit a double");
    }
    return true;
  }

  const std::string_view document_;
  std::vector<std::string>* const mistakes_;
  size_t next_ = 0;
  const char* reason_ = "";
};

Result<Json> Json::parse(std::string_view document) {
  Reader reader(document);
  Result<Json> result{Json()};
  if (!reader.read_document(result.value())) return reader.failure();
  return result;
}

Result<Json> Json::parse_leniently(std::string_view document, std::vector<std::string>& mistakes) {
  Reader reader(document, &mistakes);
  Result<Json> result{Json()};
  if (!reader.read_document(result.value())) return reader.failure();
  return result;
}

std::optional<int64_t> Json::integer() const {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  const double* value = number();
  if (value == nullptr || std::trunc(*value) != *value || std::abs(*value) > kMost) return std::nullopt;
  return static_cast<int64_t>(*value);
}

const Json* Json::find(std::string_view name) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  const auto found = members->find(name);
  return found == members->end() ? nullptr : &found->second;
}

}  // namespace softnpu
