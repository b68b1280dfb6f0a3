// The vocabulary's pieces as a tree of bytes, in preorder: what a grammar refuses at a node it
// refuses for all pieces that begin so, and the walk skips them. Made once per model, read by any
// thread.
#pragma once

#include "grammar/effort.h"

#include "llama.h"

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

namespace recua {

class PieceTree {
public:
  struct Node {
    uint32_t next;     // index of the first node that is not below this one
    llama_token token; // one whose piece ends here, or -1
    uint16_t depth;    // bytes above this one
    uint8_t byte;
  };

  explicit PieceTree(const llama_vocab *vocab);

  std::vector<Node> nodes;
  // Tokens with the same piece, as a chain: another token, or -1.
  std::vector<llama_token> twin;
  // Those that end a generation; they are not in the tree.
  std::vector<llama_token> ends;
  // Bytes of a token's piece, up to its first NUL as llama.cpp's grammars read it; '' for one that
  // has no place in a grammar.
  const std::string &piece(llama_token token) const { return pieces[static_cast<size_t>(token)]; }
  bool is_end(llama_token token) const { return end_flags[static_cast<size_t>(token)]; }
  int32_t size() const { return static_cast<int32_t>(pieces.size()); }
  // Whether there are tokens with all bytes of one of these characters.
  bool spells(uint32_t first, uint32_t last, Effort &work) const;
  size_t longest = 0; // bytes

private:
  std::vector<std::string> pieces;
  std::vector<bool> end_flags;
  std::bitset<256> bytes_used;
};

// The bytes that a token stands for, control tokens' names included where `special`.
std::string token_bytes(const llama_vocab *vocab, llama_token token, bool special);

} // namespace recua
