#include "report.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace bench {
namespace {

std::string fixed(double value, int digits, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", digits, value, unit);
  return text;
}

std::string show(double seconds, size_t bytes) {
  if (bytes > 0) return fixed(static_cast<double>(bytes) / seconds / 1e9, 2, "GB/s");
  return seconds < 10e-6 ? fixed(seconds * 1e9, 0, "ns") : fixed(seconds * 1e6, 1, "us");
}

std::string show(const Bar& bar) {
  if (bar.kind == Bar::Kind::kNone) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%s %.2f", bar.kind == Bar::Kind::kAtMost ? "<=" : ">=", bar.value);
  return text;
}

const char* verdict(const Result& result) {
  if (result.what.bar.kind == Bar::Kind::kNone) return "-";
  return result.ok() ? "ok" : "MISS";
}

constexpr const char* kRow = "%-20s %12s %12s %8s %8s  %-4s  %s\n";

}  // namespace

void print_header() { std::printf(kRow, "case", "ours", "plain", "ratio", "bar", "", "again"); }

void print_row(const Result& result, const std::string& program) {
  const auto& [what, outcome] = result;
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.3f", outcome.ratio);
  std::printf(kRow, what.name.c_str(), show(outcome.ours, what.bytes).c_str(), show(outcome.plain, what.bytes).c_str(), ratio,
              show(what.bar).c_str(), verdict(result), (program + " --case " + what.name).c_str());
  std::fflush(stdout);
}

bool write_json(const std::string& path, const std::vector<Result>& results) {
  std::ostringstream json;
  json << "[\n";
  for (const auto& [what, outcome] : results) {
    json << "  {\"case\": \"" << what.name << "\", \"job\": \"" << what.job << "\", \"plain_job\": \"" << what.plain
         << "\", \"ours_seconds\": " << outcome.ours << ", \"plain_seconds\": " << outcome.plain << ", \"bytes\": " << what.bytes
         << ", \"ratio\": " << outcome.ratio;
    if (what.bar.kind == Bar::Kind::kAtMost) json << ", \"at_most\": " << what.bar.value;
    if (what.bar.kind == Bar::Kind::kAtLeast) json << ", \"at_least\": " << what.bar.value;
    json << ", \"ok\": " << (what.bar.met_by(outcome.ratio) ? "true" : "false")
         << (what.name == results.back().what.name ? "}\n" : "},\n");
  }
  json << "]\n";
  std::ofstream file(path);
  file << json.str();
  return static_cast<bool>(file.flush());
}

}  // namespace bench
