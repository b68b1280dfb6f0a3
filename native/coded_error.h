// C++ errors with a code of src/errors.ts, and the outcome of work that may throw them. Any thread;
// independent of JS.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace recua {

// An error with a code of src/errors.ts. Thrown on any thread; becomes a JS Error with `code` on
// the JS thread.
struct CodedError : std::runtime_error {
  const char *code;
  int32_t index; // which of several items it is about, or -1; `index` in JS
  CodedError(const char *code, const std::string &message, int32_t index = -1)
      : std::runtime_error(message), code(code), index(index) {}
};

// The outcome of off-thread work, carried back to the JS thread.
struct Outcome {
  const char *code = nullptr; // nullptr: success
  std::string message;
  int32_t index = -1;

  // Runs `work` on the current thread. `fallback` is the code for exceptions without one.
  template <typename Work>
  static Outcome of(Work &&work, const char *fallback = "internal_error") {
    try {
      work();
      return {};
    } catch (const CodedError &error) {
      return {error.code, error.what(), error.index};
    } catch (const std::exception &error) {
      return {fallback, error.what(), -1};
    } catch (...) {
      return {fallback, "unknown C++ exception", -1};
    }
  }
};

} // namespace recua
