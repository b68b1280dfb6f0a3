// Errors of C++ with a code of src/errors.ts, and what work that may throw them ended with. Any thread; nothing of JS.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace recua {

// An error with a code of src/errors.ts. Thrown on any thread; becomes a JS Error with `code` on the JS thread.
struct CodedError : std::runtime_error {
  const char *code;
  CodedError(const char *code, const std::string &message) : std::runtime_error(message), code(code) {}
};

// What a piece of off-thread work ended with, carried back to the JS thread.
struct Outcome {
  const char *code = nullptr; // nullptr: it went well
  std::string message;

  // Runs `work` on the current thread; `fallback` is the code of exceptions that carry none.
  template <typename Work>
  static Outcome of(Work &&work, const char *fallback = "internal_error") {
    try {
      work();
      return {};
    } catch (const CodedError &error) {
      return {error.code, error.what()};
    } catch (const std::exception &error) {
      return {fallback, error.what()};
    } catch (...) {
      return {fallback, "unknown C++ exception"};
    }
  }
};

} // namespace recua
