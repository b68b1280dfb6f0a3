// llama.cpp's src/unicode.cpp splits a text into words with std::regex, which recurses once per
// character: a long word ends the process. If these functions are declared before that file
// (unicode_words.cpp), its calls choose them, because a plain function is a better match than the
// template of the same name there.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// The lengths of the parts of `text`: each of its pieces (whose lengths are `pieces`) cut at the
// matches of `pattern`. Time and memory are proportional to the text. Throws std::runtime_error for
// an unsupported pattern.
std::vector<size_t> unicode_regex_split_stl(const std::string &text, const std::string &pattern,
                                            const std::vector<size_t> &pieces);
std::vector<size_t> unicode_regex_split_stl(const std::wstring &text, const std::wstring &pattern,
                                            const std::vector<size_t> &pieces);
