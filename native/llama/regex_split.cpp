// See regex_split.h. Part of libllama; any thread.
#include "regex_split.h"

#include "regex.h"

#include <map>
#include <mutex>

namespace {

using recua::regex::Matcher;
using recua::regex::Program;

// The patterns are llama.cpp's own, so there are never many.
const Program &program_of(const std::vector<uint32_t> &pattern) {
  static std::mutex mutex;
  static std::map<std::vector<uint32_t>, Program> programs;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = programs.find(pattern);
  if (found == programs.end()) found = programs.emplace(pattern, recua::regex::compile(pattern)).first;
  return found->second;
}

// Matches come in the order of std::regex_iterator: after an empty match, the next match at the
// same position must not be empty.
template <typename Char>
void split_piece(const Program &program, const Char *text, size_t length, std::vector<size_t> &lengths) {
  Matcher<Char> matcher(program, text, length);
  size_t cut = 0;
  size_t begin = 0;
  size_t end = 0;
  bool found = matcher.search(0, begin, end);
  while (found) {
    if (begin > cut) lengths.push_back(begin - cut);
    lengths.push_back(end - begin);
    cut = end;
    if (begin < end) {
      found = matcher.search(cut, begin, end);
    } else if (cut == length) {
      break;
    } else if (matcher.match(cut, true, end)) {
      begin = cut;
    } else {
      found = matcher.search(cut + 1, begin, end);
    }
  }
  if (cut < length) lengths.push_back(length - cut);
}

template <typename Char>
std::vector<size_t> split(const std::basic_string<Char> &text, const std::basic_string<Char> &pattern, const std::vector<size_t> &pieces) {
  std::vector<size_t> lengths;
  if (text.empty()) return lengths;
  std::vector<uint32_t> characters;
  for (const Char c : pattern) characters.push_back(sizeof(Char) == 1 ? static_cast<unsigned char>(c) : static_cast<uint32_t>(c));
  const Program &program = program_of(characters);
  lengths.reserve(pieces.size());
  size_t start = 0;
  for (const size_t length : pieces) {
    split_piece(program, text.data() + start, length, lengths);
    start += length;
  }
  return lengths;
}

} // namespace

std::vector<size_t> unicode_regex_split_stl(const std::string &text, const std::string &pattern, const std::vector<size_t> &pieces) {
  return split(text, pattern, pieces);
}

std::vector<size_t> unicode_regex_split_stl(const std::wstring &text, const std::wstring &pattern, const std::vector<size_t> &pieces) {
  return split(text, pattern, pieces);
}
