// The pieces of a vocabulary's text tokens as a tree of bytes, in preorder. A grammar that refuses
// a node refuses all pieces below it, so the walk skips them. Made once per model, read by any
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
    llama_token token; // a token whose piece ends here, or -1
    uint16_t depth;    // bytes above this one
    uint8_t byte;
  };

  explicit PieceTree(const llama_vocab *vocab);

  std::vector<Node> nodes;
  // Links tokens with the same piece: another such token, or -1.
  std::vector<llama_token> twin;
  // Tokens that end a generation; not in the tree.
  std::vector<llama_token> ends;
  // The bytes of a token's piece, up to its first NUL, as llama.cpp's grammars read it; '' for a
  // token that no grammar can use.
  const std::string &piece(llama_token token) const { return pieces[static_cast<size_t>(token)]; }
  bool is_end(llama_token token) const { return end_flags[static_cast<size_t>(token)]; }
  // Whether the token's piece is a name that does not appear in the text; not in the tree.
  bool is_control(llama_token token) const { return control_flags[static_cast<size_t>(token)]; }
  int32_t size() const { return static_cast<int32_t>(pieces.size()); }
  // Whether tokens can spell all bytes of any character in this range.
  bool spells(uint32_t first, uint32_t last, Effort &work) const;
  size_t longest = 0; // bytes

private:
  std::vector<std::string> pieces;
  std::vector<bool> end_flags, control_flags;
  std::bitset<256> bytes_used;
};

// The bytes that a token stands for; with `special`, also the names of control tokens.
std::string token_bytes(const llama_vocab *vocab, llama_token token, bool special);

} // namespace recua
