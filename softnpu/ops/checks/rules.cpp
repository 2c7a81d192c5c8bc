#include "ops/checks/rules.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <limits>
#include <optional>

#include "ops/calls/executor.h"
#include "ops/checks/shapes.h"

namespace softnpu::ops {
namespace {

// The value of a condition, or the reason why it has none.
struct Outcome {
  int64_t number = 0;
  bool absent = false;  // an argument of the condition is null
  bool failed = false;  // a dimension is out of range, a number overflows, or a divisor is 0
};

// The check of one call.
class Check {
 public:
  Check(const Rules& rules, const Executor& executor) : rules_(rules), executor_(executor) {}

  Status run() {
    size_t count = 1;
    SOFTNPU_RETURN_IF_ERROR(find_list_length(count));
    for (size_t element = 0; element < count; ++element) {
      element_ = element;
      letters_.fill(std::nullopt);
      for (const Pattern& pattern : rules_.patterns) SOFTNPU_RETURN_IF_ERROR(match(pattern));
    }
    for (const Condition& condition : rules_.conditions) SOFTNPU_RETURN_IF_ERROR(check(condition));
    return {};
  }

 private:
  using Letter = std::optional<c10::IntArrayRef>;

  const ParameterInfo& info(Argument argument) const { return executor_.operation->parameters[argument.parameter]; }
  const Executor::Slice& slice(Argument argument) const { return executor_.slices[argument.position]; }

  const TensorView& view(Argument argument) const {
    if (info(argument).kind == ParameterKind::kTensor) return executor_.views[argument.position];
    return executor_.views[slice(argument).begin + element_];
  }

  bool is_absent(Argument argument) const {
    switch (info(argument).kind) {
      case ParameterKind::kTensor:
        return executor_.views[argument.position].dtype == ACL_DT_UNDEFINED;
      case ParameterKind::kScalar:
        return executor_.absent_scalars >> argument.position & 1;
      case ParameterKind::kValue:
        return false;
      default:
        return !slice(argument).present;
    }
  }

  c10::IntArrayRef array(Argument argument) const {
    return {executor_.numbers.data() + slice(argument).begin, slice(argument).count};
  }

  // What a pattern describes: the sizes of a tensor or the elements of an array.
  c10::IntArrayRef sizes(Argument argument) const {
    if (!info(argument).is_tensor()) return array(argument);
    return {view(argument).sizes, size_t(view(argument).ndim)};
  }

  // Sets `count` to the common length of the lists that have patterns, if there are any.
  Status find_list_length(size_t& count) const {
    const Pattern* first = nullptr;
    for (const Pattern& pattern : rules_.patterns) {
      if (info(pattern.argument).kind != ParameterKind::kTensorList || is_absent(pattern.argument)) continue;
      const size_t length = slice(pattern.argument).count;
      if (pattern.may_be_empty && length == 0) continue;
      if (first == nullptr) {
        first = &pattern;
        count = length;
      } else if (length != count) {
        return {ACLNN_ERR_PARAM_INVALID, text("argument '", info(pattern.argument).name, "' is a list of ", length, " tensors, '",
                                              info(first->argument).name, "' one of ", count)};
      }
    }
    return {};
  }

  Status match(const Pattern& pattern) {
    if (is_absent(pattern.argument)) return {};
    if (pattern.may_be_empty && slice(pattern.argument).count == 0) return {};
    if (info(pattern.argument).is_tensor() && view(pattern.argument).dtype == ACL_DT_UNDEFINED) return {};
    const c10::IntArrayRef sizes = this->sizes(pattern.argument);
    const std::array<Letter, kMaxLetters> known = letters_;
    if (matches(pattern, sizes)) return {};
    letters_ = known;
    const ParameterInfo& parameter = info(pattern.argument);
    const std::string position = parameter.kind == ParameterKind::kTensorList ? text("[", element_, "]") : std::string();
    return {ACLNN_ERR_PARAM_INVALID,
            text("argument '", parameter.name, position, "'", parameter.is_tensor() ? " of shape " : " = ", sizes,
                 " should be as ", pattern.text, known_letters(pattern))};
  }

  bool matches(const Pattern& pattern, c10::IntArrayRef sizes) {
    size_t fixed = 0;
    size_t open_groups = 0;
    for (const PatternItem& item : pattern.items) {
      if (item.kind != PatternItem::kGroup) {
        ++fixed;
      } else if (const Letter& letter = letter_of(item); letter.has_value()) {
        fixed += letter->size();
      } else {
        ++open_groups;
      }
    }
    if (sizes.size() < fixed || (open_groups == 0 && sizes.size() != fixed)) return false;
    size_t open_length = sizes.size() - fixed;
    size_t place = 0;
    for (const PatternItem& item : pattern.items) {
      Letter& letter = letter_of(item);
      size_t length = 1;
      if (item.kind == PatternItem::kGroup) length = letter.has_value() ? letter->size() : std::exchange(open_length, 0);
      const c10::IntArrayRef part = sizes.slice(place, length);
      place += length;
      if (item.kind == PatternItem::kLiteral && part[0] != item.value) return false;
      if (letter.has_value() && *letter != part) return false;
      if (item.letter != kNoLetter) letter = part;
    }
    return true;
  }

  Letter& letter_of(const PatternItem& item) {
    nothing_.reset();
    return item.letter == kNoLetter ? nothing_ : letters_[size_t(item.letter)];
  }

  // ", where D = 4" for the letters of a pattern whose sizes earlier patterns have set.
  std::string known_letters(const Pattern& pattern) const {
    std::string known;
    for (const PatternItem& item : pattern.items) {
      if (item.letter == kNoLetter || !letters_[size_t(item.letter)].has_value()) continue;
      const c10::IntArrayRef sizes = *letters_[size_t(item.letter)];
      known += text(known.empty() ? ", where " : " and ", rules_.letters[size_t(item.letter)], " = ");
      known += item.kind == PatternItem::kGroup ? text(sizes) : text(sizes[0]);
    }
    return known;
  }

  Status check(const Condition& condition) {
    element_ = 0;
    std::span<const RuleStep> steps = condition.steps;
    while (!steps.empty()) {
      const auto end = std::ranges::find(steps, RuleStep::kOr, &RuleStep::code);
      const auto length = size_t(end - steps.begin());
      const Outcome outcome = evaluate(steps.first(length));
      if (outcome.absent || (!outcome.failed && outcome.number != 0)) return {};
      steps = steps.subspan(std::min(length + 1, steps.size()));
    }
    return {ACLNN_ERR_PARAM_INVALID, text("the call should satisfy ", condition.text, describe(condition))};
  }

  // The values of the arguments of a condition: "; self is [2, 3], dim is 4".
  std::string describe(const Condition& condition) const {
    std::string values;
    std::bitset<256> named;
    for (const RuleStep& step : condition.steps) {
      for (int i = 0; i < step.argument_count; ++i) {
        const Argument argument = step.arguments[i];
        if (named[argument.parameter]) continue;
        named.set(argument.parameter);
        values += text(values.empty() ? "; " : ", ", info(argument).name, " is ", value_text(step, argument));
      }
      if (step.code == RuleStep::kLetter && letters_[size_t(step.value)].has_value()) {
        values += text(values.empty() ? "; " : ", ", rules_.letters[size_t(step.value)], " is ", *letters_[size_t(step.value)]);
      }
    }
    return values;
  }

  std::string value_text(const RuleStep& step, Argument argument) const {
    if (is_absent(argument)) return "null";
    switch (info(argument).kind) {
      case ParameterKind::kTensor:
        if (step.code == RuleStep::kDtypeIn || step.code == RuleStep::kSameDtype) return name_of(view(argument).dtype);
        return text(sizes(argument));
      case ParameterKind::kTensorList:
      case ParameterKind::kScalarList:
        return text("a list of ", slice(argument).count);
      case ParameterKind::kFloatArray:
        return text("an array of ", slice(argument).count);
      case ParameterKind::kIntArray:
      case ParameterKind::kBoolArray:
        return text(array(argument));
      default:
        return text(integer(argument).value_or(0));
    }
  }

  std::optional<int64_t> integer(Argument argument) const {
    if (info(argument).kind == ParameterKind::kValue) return executor_.values[argument.position].integer;
    const at::Scalar& scalar = executor_.scalars[argument.position];
    if (!scalar.isIntegral(/*includeBool=*/true) || (scalar.isUnsigned() && scalar.toUInt64() >> 63)) return std::nullopt;
    return scalar.toLong();
  }

  Outcome evaluate(std::span<const RuleStep> steps) {
    std::array<int64_t, 16> stack;
    size_t top = 0;
    bool failed = false;
    const auto pop = [&] { return stack[--top]; };
    const auto push = [&](int64_t number) { stack[top++] = number; };
    for (const RuleStep& step : steps) {
      for (int i = 0; i < step.argument_count; ++i) {
        if (step.code != RuleStep::kGiven && is_absent(step.arguments[i])) return {.absent = true};
      }
      const Argument first = step.arguments[0];
      const Argument second = step.arguments[1];
      switch (step.code) {
        case RuleStep::kLiteral:
          push(step.value);
          break;
        case RuleStep::kInteger: {
          const std::optional<int64_t> number = integer(first);
          failed |= !number.has_value();
          push(number.value_or(0));
          break;
        }
        case RuleStep::kLetter: {
          const Letter& letter = letters_[size_t(step.value)];
          if (!letter.has_value()) return {.absent = true};
          push(product(*letter, failed));
          break;
        }
        case RuleStep::kRank:
          push(view(first).ndim);
          break;
        case RuleStep::kSize: {
          const int64_t dim = wrap(pop(), view(first).ndim);
          failed |= dim < 0;
          push(dim < 0 || view(first).ndim == 0 ? 1 : view(first).sizes[dim]);
          break;
        }
        case RuleStep::kNumel:
          push(numel(first, failed));
          break;
        case RuleStep::kCount:
          push(slice(first).count);
          break;
        case RuleStep::kItem: {
          const c10::IntArrayRef numbers = array(first);
          const int64_t place = numbers.empty() ? -1 : wrap(pop(), int64_t(numbers.size()));
          failed |= place < 0;
          push(place < 0 ? 0 : numbers[size_t(place)]);
          break;
        }
        case RuleStep::kLeast:
          push(array(first).empty() ? 0 : *std::min_element(array(first).begin(), array(first).end()));
          break;
        case RuleStep::kMin:
        case RuleStep::kAdd:
        case RuleStep::kSubtract:
        case RuleStep::kMultiply:
        case RuleStep::kDivide:
        case RuleStep::kEqual:
        case RuleStep::kUnequal:
        case RuleStep::kLess:
        case RuleStep::kLessEqual: {
          const int64_t right = pop();
          const int64_t left = pop();
          push(calculate(step.code, left, right, failed));
          break;
        }
        case RuleStep::kAxis:
          push(wrap(pop(), view(first).ndim) >= 0);
          break;
        case RuleStep::kAxes:
          push(are_axes(array(first), view(second).ndim));
          break;
        case RuleStep::kSame:
          push(same_shape(view(first), view(second)));
          break;
        case RuleStep::kSameBut:
          push(same_but(pop(), view(first), view(second)));
          break;
        case RuleStep::kBroadcasts:
          push(broadcasts(view(first), view(second)));
          break;
        case RuleStep::kReduced:
          push(is_reduced(view(first), array(second), pop() != 0, view(step.arguments[2])));
          break;
        case RuleStep::kReducedOne: {
          const bool keepdim = pop() != 0;
          const int64_t dim = pop();
          push(is_reduced(view(first), dim, keepdim, view(second)));
          break;
        }
        case RuleStep::kAlike:
          push(are_alike(first));
          break;
        case RuleStep::kDense:
          push(view(first).contiguous || view(first).numel == 0);
          break;
        case RuleStep::kByColumns:
          push(is_by_columns(view(first)));
          break;
        case RuleStep::kGiven:
          push(!is_absent(first));
          break;
        case RuleStep::kOr:
          break;
        case RuleStep::kSameDtype:
          push(view(first).dtype == view(second).dtype);
          break;
        case RuleStep::kDtypeIn:
          push(uint64_t(step.value) >> view(first).dtype & 1);
          break;
      }
    }
    return {.number = stack[0], .failed = failed};
  }

  int64_t numel(Argument argument, bool& failed) const {
    if (info(argument).is_tensor()) return view(argument).numel;
    return product(array(argument), failed);
  }

  static int64_t product(c10::IntArrayRef numbers, bool& failed) {
    int64_t product = 1;
    for (const int64_t number : numbers) failed |= __builtin_mul_overflow(product, number, &product);
    return product;
  }

  static int64_t calculate(RuleStep::Code code, int64_t left, int64_t right, bool& failed) {
    int64_t result = 0;
    switch (code) {
      case RuleStep::kMin:
        return std::min(left, right);
      case RuleStep::kAdd:
        failed |= __builtin_add_overflow(left, right, &result);
        return result;
      case RuleStep::kSubtract:
        failed |= __builtin_sub_overflow(left, right, &result);
        return result;
      case RuleStep::kMultiply:
        failed |= __builtin_mul_overflow(left, right, &result);
        return result;
      case RuleStep::kDivide:
        if (right == 0 || (right == -1 && left == std::numeric_limits<int64_t>::min())) {
          failed = true;
          return 0;
        }
        return left / right;
      case RuleStep::kEqual:
        return left == right;
      case RuleStep::kUnequal:
        return left != right;
      case RuleStep::kLess:
        return left < right;
      default:
        return left <= right;
    }
  }

  bool are_alike(Argument list) const {
    const Executor::Slice& items = slice(list);
    for (uint32_t i = 1; i < items.count; ++i) {
      if (!same_shape(executor_.views[items.begin], executor_.views[items.begin + i])) return false;
    }
    return true;
  }

  const Rules& rules_;
  const Executor& executor_;
  std::array<Letter, kMaxLetters> letters_;
  Letter nothing_;
  size_t element_ = 0;  // index in the lists, while patterns are matched
};

}  // namespace

Status check_rules(const Rules& rules, const Executor& executor) { return Check(rules, executor).run(); }

}  // namespace softnpu::ops
