// Builds the tree by sorting the pieces: neighbors share their longest prefix.
#include "grammar/piece_tree.h"

#include <algorithm>

namespace recua {

std::string token_bytes(const llama_vocab *vocab, llama_token token, bool special) {
  char buffer[256];
  int32_t length = llama_token_to_piece(vocab, token, buffer, sizeof buffer, 0, special);
  if (length >= 0) return std::string(buffer, static_cast<size_t>(length));
  std::string bytes(static_cast<size_t>(-length), '\0');
  length = llama_token_to_piece(vocab, token, bytes.data(), -length, 0, special);
  bytes.resize(static_cast<size_t>(std::max(length, 0)));
  return bytes;
}

PieceTree::PieceTree(const llama_vocab *vocab) {
  const auto count = static_cast<size_t>(llama_vocab_n_tokens(vocab));
  pieces.resize(count);
  end_flags.resize(count);
  control_flags.resize(count);
  twin.assign(count, -1);
  std::vector<llama_token> order;
  order.reserve(count);
  for (size_t i = 0; i < count; i++) {
    const auto token = static_cast<llama_token>(i);
    if (llama_vocab_is_eog(vocab, token)) {
      end_flags[i] = true;
      ends.push_back(token);
      continue;
    }
    std::string bytes = token_bytes(vocab, token, true);
    bytes.resize(std::min(bytes.size(), bytes.find('\0')));
    if (bytes.empty() || bytes.size() > UINT16_MAX) continue; // too long for Node::depth
    longest = std::max(longest, bytes.size());
    for (const char byte : bytes) bytes_used.set(static_cast<uint8_t>(byte));
    pieces[i] = std::move(bytes);
    control_flags[i] = token_bytes(vocab, token, false).empty();
    if (!control_flags[i]) order.push_back(token);
  }
  std::sort(order.begin(), order.end(), [&](llama_token a, llama_token b) {
    const int compared = piece(a).compare(piece(b));
    return compared < 0 || (compared == 0 && a < b);
  });

  std::vector<uint32_t> path; // the open nodes, from the root's child down
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes[path.back()].next = static_cast<uint32_t>(nodes.size());
  };
  const std::string *last = nullptr;
  for (const llama_token token : order) {
    const std::string &bytes = piece(token);
    size_t common = 0;
    if (last != nullptr) {
      while (common < bytes.size() && common < last->size() && bytes[common] == (*last)[common]) common++;
    }
    last = &bytes;
    close_to(common);
    for (size_t depth = common; depth < bytes.size(); depth++) {
      path.push_back(static_cast<uint32_t>(nodes.size()));
      nodes.push_back({0, -1, static_cast<uint16_t>(depth), static_cast<uint8_t>(bytes[depth])});
    }
    Node &node = nodes[path.back()];
    twin[static_cast<size_t>(token)] = node.token;
    node.token = token;
  }
  close_to(0);
  nodes.shrink_to_fit();
}

bool PieceTree::spells(uint32_t first, uint32_t last, Effort &work) const {
  constexpr uint32_t most = 0x10FFFF;
  for (uint32_t character = first; character <= std::min(last, most); character++) {
    work.spend();
    if (character >= 0xD800 && character <= 0xDFFF) { // surrogates are no characters
      character = 0xDFFF;
      continue;
    }
    const int bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static constexpr uint32_t leads[] = {0, 0xC0, 0xE0, 0xF0};
    int shift = 6 * (bytes - 1);
    bool used = bytes_used.test((leads[bytes - 1] | (character >> shift)) & 0xFF);
    while (used && shift > 0) {
      shift -= 6;
      used = bytes_used.test(0x80 | ((character >> shift) & 0x3F));
    }
    if (used) return true;
    character |= (1u << shift) - 1; // skip all that begin with the same bytes
  }
  return false;
}

} // namespace recua
