// Compares docs/environment.md with the table of options.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/options.h"

namespace torch_npu {
namespace {

TEST(Options, EveryRowIsDocumented) {
  std::ifstream file(std::string(TORCH_NPU_DOCS_DIR) + "/environment.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const OptionDoc& doc : option_docs()) {
    std::stringstream row;
    row << "| `" << doc.name << "` | " << doc.values << " | " << doc.standard << " | " << doc.effect << " |\n";
    EXPECT_NE(text.str().find(row.str()), std::string::npos) << "docs/environment.md lacks this row:\n" << row.str();
  }
}

}  // namespace
}  // namespace torch_npu
