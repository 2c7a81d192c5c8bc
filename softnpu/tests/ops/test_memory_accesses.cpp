// The memory ranges that a call reads and writes, tested with the race check (runtime/checks/races.h) in child processes.
#include <dlfcn.h>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_adds.h"
#include "aclnnop/aclnn_cat.h"
#include "ops/operands.h"
#include "runtime/softnpu.h"

namespace softnpu::test {
namespace {

class ChildAccesses : public OpsFixture {
 protected:
  ~ChildAccesses() override { EXPECT_ACL(aclrtSynchronizeDevice()); }

  // The number of races since the last call.
  static ptrdiff_t races() {
    std::string reply(64 << 10, '\0');
    auto* const control = reinterpret_cast<decltype(&softnpuControl)>(dlsym(RTLD_DEFAULT, "softnpuControl"));
    EXPECT_ACL(control("races", reply.data(), reply.size()));
    return std::count(reply.begin(), reply.end(), '\n');
  }
  // Adds 1 to a view of `matrix`.
  void increase(aclrtStream stream, const Sizes& sizes, const Sizes& strides, int64_t offset) {
    const TensorObject view = describe(matrix.address(), sizes, ACL_FLOAT, strides, offset);
    EXPECT_ACL(CALL(aclnnInplaceAdds, stream, view, one, one));
  }

  Stream first = make_stream();
  Stream second = make_stream();
  Operand matrix{{8, 16}};
  Operand other{{8, 16}};
  Operand out{{8, 16}};
  ScalarObject one = scalar(1);
};

TEST_F(ChildAccesses, ColumnsAndRowsAreExactRanges) {
  increase(first, {8, 4}, {16, 1}, 0);
  increase(second, {8, 4}, {16, 1}, 4);
  increase(first, {4, 8}, {1, 16}, 8);  // transposed
  increase(second, {2, 4, 2}, {64, 16, 2}, 12);
  increase(first, {2, 4, 2}, {64, 16, 2}, 13);
  EXPECT_EQ(races(), 0);
  increase(second, {16}, {1}, 3 * 16);
  EXPECT_EQ(races(), 1);
}

TEST_F(ChildAccesses, ExpandedViewTouchesOneRow) {
  EXPECT_ACL(CALL(aclnnAdd, first, describe(matrix.address(), {8, 16}, ACL_FLOAT, {0, 1}), other, one, out));
  increase(second, {7, 16}, {16, 1}, 16);
  EXPECT_EQ(races(), 0);
  increase(second, {1}, {1}, 15);
  EXPECT_EQ(races(), 1);
}

TEST_F(ChildAccesses, InputsAreReadAndOutputsWritten) {
  EXPECT_ACL(CALL(aclnnAdd, first, matrix, other, one, out));
  Operand elsewhere({8, 16});
  EXPECT_ACL(CALL(aclnnAdd, second, matrix, other, one, elsewhere));
  EXPECT_EQ(races(), 0);
  EXPECT_ACL(CALL(aclnnAdd, second, matrix, out, one, elsewhere));
  EXPECT_EQ(races(), 1);
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST_F(ChildAccesses, ElementsOfListsAreRead) {
  Operand joined({16, 16});
  aclTensor* const items[] = {describe(matrix.address(), {8, 16}).release(), describe(other.address(), {8, 16}).release()};
  const TensorListObject list(aclCreateTensorList(items, 2));
  EXPECT_ACL(CALL(aclnnCat, first, list, int64_t(0), joined));
  increase(second, {1}, {1}, 0);
  EXPECT_EQ(races(), 1);
  EXPECT_ACL(aclrtSynchronizeDevice());
}

TEST(Accesses, AreTheRangesOfTheArguments) { EXPECT_CHILD_PASSES("ChildAccesses.*", {"SOFTNPU_RACE_CHECK=report"}); }

}  // namespace
}  // namespace softnpu::test
