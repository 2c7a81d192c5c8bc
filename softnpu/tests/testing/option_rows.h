// Compares the table of a library's options with docs/environment.md. The test's target defines SOFTNPU_DOCS_DIR.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "runtime/base/option_doc.h"
#include "runtime/base/status.h"

namespace softnpu::test {

// The document has every row, word for word.
inline void expect_documented(std::span<const OptionDoc> rows) {
  std::ifstream file(SOFTNPU_DOCS_DIR "/environment.md");
  std::stringstream content;
  content << file.rdbuf();
  for (const OptionDoc& row : rows) {
    const std::string line = text("| `", row.name, "` | ", row.values, " | ", row.standard, " | ", row.effect, " |\n");
    EXPECT_NE(content.str().find(line), std::string::npos) << "docs/environment.md lacks this row:\n" << line;
  }
}

}  // namespace softnpu::test
