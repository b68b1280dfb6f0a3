// Errors of C++ with a code of src/errors.ts, and what work that may throw them ended with. Any
// thread; nothing of JS.
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
  int32_t index; // of what it is about, where that is one of several; -1 where not. `index` in JS
  CodedError(const char *code, const std::string &message, int32_t index = -1)
      : std::runtime_error(message), code(code), index(index) {}
};

// What a piece of off-thread work ended with, carried back to the JS thread.
struct Outcome {
  const char *code = nullptr; // nullptr: it went well
  std::string message;
  int32_t index = -1;

  // Runs `work` on the current thread; `fallback` is the code of exceptions that carry none.
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
