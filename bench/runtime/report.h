// The results: a table for people, a file for scripts.
#pragma once

#include <string>
#include <vector>

#include "measure.h"

namespace bench {

struct Result {
  Case what;
  Outcome outcome;

  bool ok() const { return what.bar.met_by(outcome.ratio); }
};

void print_header();
// One row, with the command that repeats the case.
void print_row(const Result& result, const std::string& program);

// False if the file cannot be written.
bool write_json(const std::string& path, const std::vector<Result>& results);

}  // namespace bench
