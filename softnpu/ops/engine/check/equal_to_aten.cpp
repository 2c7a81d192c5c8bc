// Is the engine equal to ATen, bit by bit, and what does a call cost?
//
// Every operation runs on every type over many layouts, out of place and in place, on random data mixed with zeros, infinities,
// NaN, denormal and extreme numbers. Any NaN equals any NaN. Prints what differs, what the engine never takes, and times; exits
// with 1 on a difference.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ops/engine/engine.h"
#include "ops/engine/view.h"

namespace softnpu::ops::engine {
namespace {

using at::Scalar;
using at::Tensor;
using Tensors = std::vector<Tensor>;

// ---- data ----

Tensor random_tensor(at::IntArrayRef sizes, at::ScalarType type) {
  static std::mt19937_64 bits(7);
  static std::normal_distribution<double> normal(0, 3);
  static const double special[] = {0.0,    -0.0, INFINITY, -INFINITY, NAN,   1,      -1,  0.5, -0.5, 2.5, 3.5,  1e-40,
                                   -1e-40, 6e-8, 65504,    1e38,      -1e38, 1e-320, 127, 128, 255,  256, 1e10, -3e9};
  Tensor values = at::empty(sizes, at::kDouble);
  double* data = values.mutable_data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const uint64_t draw = bits();
    data[i] = draw % 8 == 0 ? special[(draw >> 8) % std::size(special)] : normal(bits);
    if (at::isFloatingType(type)) continue;
    if (!std::isfinite(data[i]) || std::abs(data[i]) > 20) data[i] = double(draw >> 40 & 15);
    data[i] = std::trunc(type == at::kByte ? std::abs(data[i] * 5) : data[i] * 5);
  }
  return type == at::kBool ? values.gt(0) : values.to(type);
}

// Operand number `i` of one of the layouts.
struct Arrangement {
  std::string name;
  std::function<Tensor(at::ScalarType, int i)> operand;
};

const std::vector<Arrangement>& arrangements() {
  static const auto all = [] {
    std::vector<Arrangement> list;
    for (int64_t n : {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 1000, 4096, 32768}) {
      list.push_back({"dense " + std::to_string(n), [n](auto type, int) { return random_tensor({n}, type); }});
    }
    const auto same = [&](std::string name, std::function<Tensor(at::ScalarType)> make) {
      list.push_back({std::move(name), [make](auto type, int) { return make(type); }});
    };
    const auto mixed = [&](std::string name, std::function<Tensor(at::ScalarType)> first,
                           std::function<Tensor(at::ScalarType)> rest) {
      list.push_back({std::move(name), [first, rest](auto type, int i) { return i == 0 ? first(type) : rest(type); }});
    };
    const auto plain = [](std::vector<int64_t> sizes) {
      return [sizes](at::ScalarType type) { return random_tensor(sizes, type); };
    };
    const auto transposed = [](at::ScalarType type) { return random_tensor({37, 21}, type).t(); };
    const auto channels_last = [](at::ScalarType type) { return random_tensor({2, 5, 6, 3}, type).permute({0, 3, 1, 2}); };
    same("no dimension", plain({}));
    same("2x2", plain({2, 2}));
    same("ones", plain({1, 1, 1}));
    same("empty", plain({0, 3}));
    same("transposed", transposed);
    same("every second column", [](at::ScalarType type) { return random_tensor({30, 80}, type).slice(1, 0, 80, 2); });
    same("some columns", [](at::ScalarType type) { return random_tensor({30, 80}, type).slice(1, 3, 50); });
    same("channels last", channels_last);
    mixed("others transposed", plain({21, 37}), transposed);
    mixed("first transposed", transposed, plain({21, 37}));
    mixed("rows", plain({21, 37}), plain({37}));
    mixed("columns", plain({21, 37}), plain({21, 1}));
    mixed("expanded", plain({21, 37}), [](at::ScalarType type) { return random_tensor({37}, type).expand({21, 37}); });
    mixed("first has no dimension", plain({}), plain({300}));
    mixed("others have no dimension", plain({300}), plain({}));
    mixed("outer", plain({7, 1}), plain({1, 9}));
    mixed("outer in three dimensions", plain({3, 1, 5}), plain({1, 4, 1}));
    mixed("first channels last", channels_last, plain({2, 3, 5, 6}));
    return list;
  }();
  return all;
}

bool same_bits(const Tensor& x, const Tensor& y) {
  const Tensor a = x.contiguous();
  const Tensor b = y.contiguous();
  const Tensor differs = a.view({-1}).view(at::kByte).ne(b.view({-1}).view(at::kByte)).view({a.numel(), -1}).any(1);
  if (!at::isFloatingType(a.scalar_type())) return !differs.any().item<bool>();
  return !differs.logical_and(at::isnan(a).logical_and(at::isnan(b)).logical_not().view({-1})).any().item<bool>();
}

// ---- the comparison ----

struct Score {
  int64_t taken = 0;
  int64_t left = 0;
  int64_t wrong = 0;
};
std::map<std::string, Score> scores;

struct Operation {
  std::string name;
  Try* attempt;
  int inputs;
  std::vector<Scalar> scalars;
  std::function<void(const Tensors& inputs, Tensor& out)> aten;
  bool inplace = true;
  bool truth = false;                                   // the output is bool
  at::ScalarType out_type = at::ScalarType::Undefined;  // as the inputs where undefined
  bool out_first = false;
  bool zeros_alike = false;  // ATen's sign of a zero depends on the place in the row
};

void compare(const Operation& operation, at::ScalarType type, const Arrangement& arrangement, bool inplace, bool permuted) {
  Tensors inputs;
  for (int i = 0; i < operation.inputs; ++i) inputs.push_back(arrangement.operand(type, i));
  std::vector<int64_t> sizes = inputs[0].sizes().vec();
  for (const Tensor& input : inputs) sizes = at::infer_size(sizes, input.sizes());
  const at::ScalarType out_type = operation.truth                                   ? at::kBool
                                  : operation.out_type != at::ScalarType::Undefined ? operation.out_type
                                                                                    : type;
  Tensor expected = at::empty(sizes, out_type);
  if (permuted)
    expected = at::empty(std::vector<int64_t>(sizes.rbegin(), sizes.rend()), out_type).permute([&] {
      std::vector<int64_t> order;
      for (int64_t dim = int64_t(sizes.size()) - 1; dim >= 0; --dim) order.push_back(dim);
      return order;
    }());
  if (inplace && at::IntArrayRef(sizes) != inputs[0].sizes()) return;
  Tensors mine = inputs;
  Tensors theirs = inputs;
  if (inplace) theirs[0] = expected = at::empty_strided(sizes, inputs[0].strides(), out_type).copy_(inputs[0]);
  Tensor got = at::empty_strided(sizes, expected.strides(), out_type);
  if (inplace) mine[0] = got.copy_(inputs[0]);
  try {
    operation.aten(theirs, expected);
  } catch (const std::exception&) {
    return;  // ATen refuses the combination
  }
  std::vector<TensorView> views;
  for (const Tensor& tensor : mine) views.push_back(view_of(tensor));
  if (!inplace) views.insert(operation.out_first ? views.begin() : views.end(), view_of(got));
  Score& score = scores[operation.name + " " + c10::toString(type)];
  if (!operation.attempt(views.data(), int(views.size()), operation.scalars.data())) {
    ++score.left;
    return;
  }
  ++score.taken;
  if (same_bits(expected, got) || (operation.zeros_alike && same_bits(expected + 0, got + 0))) return;
  if (score.wrong++ == 0) {
    std::printf("differs: %s, %s, %s%s%s\n", operation.name.c_str(), c10::toString(type), arrangement.name.c_str(),
                inplace ? ", in place" : "", permuted ? ", permuted output" : "");
  }
}

void compare(const Operation& operation, at::ScalarType type) {
  for (const Arrangement& arrangement : arrangements()) {
    compare(operation, type, arrangement, false, false);
    compare(operation, type, arrangement, false, true);
    if (operation.inplace) compare(operation, type, arrangement, true, false);
  }
}

// Tests of functions that have no input ask for one and ignore it.
template <Try* attempt>
bool on_last(const TensorView* tensors, int tensor_count, const Scalar* scalars) {
  return attempt(tensors + tensor_count - 1, 1, scalars);
}

// The condition is where the first operand is above 0.
bool where_above_zero(const TensorView* tensors, int tensor_count, const Scalar* scalars) {
  const TensorView& first = tensors[0];
  const Tensor condition = at::from_blob(first.data, at::IntArrayRef(first.sizes, size_t(first.ndim)),
                                         at::IntArrayRef(first.strides, size_t(first.ndim)), scalar_type_of(first.dtype))
                               .gt(0);
  std::vector<TensorView> views(tensors, tensors + tensor_count);
  views[0] = view_of(condition);
  return try_where(views.data(), tensor_count, scalars);
}

void compare_all(at::ScalarType type, const std::vector<at::ScalarType>& types) {
  for (const Scalar& alpha : {Scalar(1), Scalar(1.0), Scalar(-1), Scalar(2), Scalar(0.3), Scalar(-1.7)}) {
    compare({"add", try_add, 2, {alpha}, [&](auto& in, Tensor& out) { at::add_out(out, in[0], in[1], alpha); }}, type);
    compare({"sub", try_sub, 2, {alpha}, [&](auto& in, Tensor& out) { at::sub_out(out, in[0], in[1], alpha); }}, type);
    for (const Scalar& other : {Scalar(3), Scalar(0.1), Scalar(-2.5), Scalar(INFINITY)}) {
      compare({"adds", try_adds, 1, {other, alpha}, [&](auto& in, Tensor& out) { at::add_out(out, in[0], other, alpha); }}, type);
      compare({"subs", try_subs, 1, {other, alpha}, [&](auto& in, Tensor& out) { at::sub_out(out, in[0], other, alpha); }}, type);
    }
  }
  compare({"mul", try_mul, 2, {}, [](auto& in, Tensor& out) { at::mul_out(out, in[0], in[1]); }}, type);
  compare({"div", try_div, 2, {}, [](auto& in, Tensor& out) { at::div_out(out, in[0], in[1]); }}, type);
  Operation larger{"maximum", try_maximum, 2, {}, [](auto& in, Tensor& out) { at::maximum_out(out, in[0], in[1]); }};
  Operation smaller{"minimum", try_minimum, 2, {}, [](auto& in, Tensor& out) { at::minimum_out(out, in[0], in[1]); }};
  larger.zeros_alike = smaller.zeros_alike = true;
  compare(larger, type), compare(smaller, type);
  for (const Scalar& v : {Scalar(2), Scalar(3), Scalar(3.0), Scalar(0.5)}) {
    compare({"pows", try_pows, 1, {v}, [&](auto& in, Tensor& out) { at::pow_out(out, in[0], v); }}, type);
  }
  for (const Scalar& v : {Scalar(-1), Scalar(0.5), Scalar(-INFINITY), Scalar(9), Scalar(NAN)}) {
    compare({"clamp", try_clamp, 1, {v, Scalar(2)}, [&](auto& in, Tensor& out) { at::clamp_out(out, in[0], v, Scalar(2)); }},
            type);
    compare({"leaky_relu", try_leaky_relu, 1, {v}, [&](auto& in, Tensor& out) { at::leaky_relu_out(out, in[0], v); }}, type);
  }
  for (const Scalar& v : {Scalar(3), Scalar(0.1), Scalar(-2.5), Scalar(0.0), Scalar(1e-3), Scalar(0.999)}) {
    compare({"muls", try_muls, 1, {v}, [&](auto& in, Tensor& out) { at::mul_out(out, in[0], v); }}, type);
    compare({"divs", try_divs, 1, {v}, [&](auto& in, Tensor& out) { at::div_out(out, in[0], v); }}, type);
    compare({"lerps", try_lerps, 2, {v}, [&](auto& in, Tensor& out) { at::lerp_out(out, in[0], in[1], v); }}, type);
    compare({"addcmul", try_addcmul, 3, {v}, [&](auto& in, Tensor& out) { at::addcmul_out(out, in[0], in[1], in[2], v); }}, type);
    compare({"addcdiv", try_addcdiv, 3, {v}, [&](auto& in, Tensor& out) { at::addcdiv_out(out, in[0], in[1], in[2], v); }}, type);
    compare({"threshold_backward",
             try_threshold_backward,
             2,
             {v},
             [&](auto& in, Tensor& out) { at::threshold_backward_out(out, in[0], in[1], v); }},
            type);
#define TRUTH(op) \
  compare({#op "s", try_##op##s, 1, {v}, [&](auto& in, Tensor& out) { at::op##_out(out, in[0], v); }, false, true}, type)
    TRUTH(eq), TRUTH(ne), TRUTH(lt), TRUTH(le), TRUTH(gt), TRUTH(ge);
#undef TRUTH
  }
#define TRUTH(op) \
  compare({#op, try_##op, 2, {}, [](auto& in, Tensor& out) { at::op##_out(out, in[0], in[1]); }, false, true}, type)
  TRUTH(eq), TRUTH(ne), TRUTH(lt), TRUTH(le), TRUTH(gt), TRUTH(ge);
#undef TRUTH
#define UNARY(op) compare({#op, try_##op, 1, {}, [](auto& in, Tensor& out) { at::op##_out(out, in[0]); }}, type)
  UNARY(neg), UNARY(abs), UNARY(reciprocal), UNARY(floor), UNARY(ceil), UNARY(trunc), UNARY(round);
#undef UNARY
  compare({"relu", try_relu, 1, {}, [](auto& in, Tensor& out) { at::clamp_min_out(out, in[0], 0); }}, type);
  compare({"where", where_above_zero, 3, {}, [](auto& in, Tensor& out) { at::where_out(out, in[0].gt(0), in[1], in[2]); }, false},
          type);
  const auto copy = [](const Tensors& in, Tensor& out) { out.copy_(in[0]); };
  for (at::ScalarType to : types) {
    compare({std::string("copy to ") + c10::toString(to), try_copy, 1, {}, copy, false, false, to, true}, type);
    compare({std::string("cast to ") + c10::toString(to), try_cast, 1, {}, copy, false, false, to}, type);
  }
  for (const Scalar& v : {Scalar(3), Scalar(0.1), Scalar(-2.5), Scalar(true), Scalar(0), Scalar(INFINITY)}) {
    compare({"fill", on_last<try_fill>, 1, {v}, [&](auto&, Tensor& out) { out.fill_(v); }}, type);
  }
  compare({"zero", on_last<try_zero>, 1, {}, [](auto&, Tensor& out) { out.zero_(); }}, type);
  compare({"one", on_last<try_one>, 1, {}, [](auto&, Tensor& out) { out.fill_(1); }}, type);
}

// ---- times ----

double nanoseconds(const std::function<void()>& call) {
  double best = INFINITY;
  for (int round = 0; round < 15; ++round) {
    constexpr int kCalls = 2000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls);
  }
  return best;
}

void time_add(at::ScalarType type, int64_t size) {
  const Tensor a = at::randn({size, size}).to(type);
  const Tensor b = at::randn({size, size}).to(type);
  Tensor out = at::empty_like(a);
  const TensorView views[] = {view_of(a), view_of(b), view_of(out)};
  const Scalar one = 1;
  std::printf("add %s %ldx%ld: at::add_out %.0f ns, engine %.0f ns\n", c10::toString(type), long(size), long(size),
              nanoseconds([&] { at::add_out(out, a, b, one); }), nanoseconds([&] { try_add(views, 3, &one); }));
}

}  // namespace

int check() {
  at::set_num_threads(1);
  const std::vector<at::ScalarType> types = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                             at::kByte,  at::kShort,  at::kInt,  at::kLong,     at::kBool};
  for (at::ScalarType type : types) compare_all(type, types);
  Score total;
  std::string never;
  for (const auto& [name, score] : scores) {
    total.taken += score.taken;
    total.wrong += score.wrong;
    if (score.taken == 0) never += (never.empty() ? "" : ", ") + name;
  }
  std::printf("%ld comparisons, %ld differences\nnever taken: %s\n", long(total.taken), long(total.wrong), never.c_str());
  for (at::ScalarType type : {at::kFloat, at::kHalf}) {
    for (int64_t size : {2, 64, 180}) time_add(type, size);
  }
  return total.wrong ? 1 : 0;
}

}  // namespace softnpu::ops::engine

int main() { return softnpu::ops::engine::check(); }
