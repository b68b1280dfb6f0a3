// The automaton. It accepts what llama.cpp's grammars accept, token by token, as long as that is
// well-formed UTF-8 (test/native/grammar/grammar.test.ts compares the two).
#include "grammar/grammar.h"

#include <algorithm>
#include <stdexcept>

namespace recua {

namespace {

constexpr size_t large_bytes = 32u << 20;
constexpr size_t crowded_bytes = 64u << 20;
constexpr size_t most_mask_bytes = 64u << 20;

std::pair<uint64_t, int32_t> mask_key(const Grammar::Position &position) {
  return {(static_cast<uint64_t>(position.state) << 32) | position.value, position.remaining};
}

} // namespace

Grammar::Grammar(std::shared_ptr<const GrammarRules> rules, std::vector<llama_token> markers,
                 Effort &work)
    : Grammar(std::move(rules), std::move(markers)) {
  first_state = stacks.start(work);
  if (first_state == Stacks::nothing) {
    throw GrammarError("expected a root with a text, got one that never ends");
  }
  first_bytes = stacks.size();
  note_size();
}

bool Grammar::is_large() const { return stacks_bytes > large_bytes + first_bytes; }

// The initial size is not growth: a deeply nested text may be large from the start.
bool Grammar::crowded() const { return stacks_bytes > crowded_bytes + 2 * first_bytes; }

void Grammar::note_size() {
  stacks_bytes = stacks.size();
  size_bytes = stacks.rules->bytes() + stacks.size() + mask_bytes;
}

std::shared_ptr<Grammar> Grammar::begin_anew(Position &position, Effort &work) {
  const std::lock_guard<std::mutex> lock(mutex);
  return successor(position, work);
}

std::shared_ptr<Grammar> Grammar::successor(Position &position, Effort &work) const {
  const std::shared_ptr<Grammar> made(new Grammar(stacks.rules, markers));
  made->first_state = position.state = stacks.copy_to(made->stacks, position.state, work);
  made->first_bytes = made->stacks.size();
  made->note_size();
  return made;
}

// Feeds one byte. Refuses what is not well-formed UTF-8 (RFC 3629, section 4): overlong forms,
// surrogates and values above U+10FFFF reach a client as replacement characters, which no grammar
// has allowed. llama.cpp lets them pass.
bool Grammar::feed(Position &position, uint8_t byte, Effort &work) {
  if (position.remaining > 0) {
    uint8_t low = 0x80, high = 0xBF;
    if (position.remaining == 3 && position.value == 0) low = 0x90;
    if (position.remaining == 3 && position.value == 4) high = 0x8F;
    // Smaller values than 0x10 have a first byte from 0xE0: those from 0xF0 are larger by now.
    if (position.remaining == 2 && position.value == 0) low = 0xA0;
    if (position.remaining == 2 && position.value == 0xD) high = 0x9F;
    if (byte < low || byte > high) return false;
    position.value = (position.value << 6) + (byte & 0x3f);
    if (--position.remaining > 0) return true;
  } else {
    static constexpr int8_t lengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 3, 4};
    position.remaining = lengths[byte >> 4] - 1;
    if (position.remaining < 0 || byte == 0xC0 || byte == 0xC1 || byte > 0xF4) return false;
    position.value = byte & ((1u << (7 - position.remaining)) - 1);
    if (position.remaining > 0) return true;
  }
  position.state = stacks.step(position.state, stacks.class_of(position.value), work);
  position.value = 0;
  return position.state != Stacks::nothing;
}

// Feeds the bytes of one piece, which may end within a character.
bool Grammar::feed_all(Position &position, const char *bytes, size_t count, Effort &work) {
  for (size_t i = 0; i < count; i++) {
    work.spend();
    if (!feed(position, static_cast<uint8_t>(bytes[i]), work)) return false;
  }
  return position.remaining == 0 ||
         stacks.may_begin(position.state, position.value, position.remaining, work);
}

bool Grammar::accept(Position &position, llama_token token, const char *bytes, size_t count,
                     Effort &work) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (count == 0) return false;
  uint32_t named = Stacks::nothing;
  if (token >= 0 && position.remaining == 0)
    named = stacks.step_token(position.state, static_cast<uint32_t>(token), work);
  Position moved = position;
  const bool fits = feed_all(moved, bytes, count, work);
  note_size();
  if (named != Stacks::nothing) {
    // A named token counts in addition to its own bytes only if these end with a complete
    // character.
    if (fits && moved.remaining == 0) named = stacks.unite(named, moved.state, work);
    position = {named, 0, 0};
    return true;
  }
  if (fits) position = moved;
  return fits;
}

bool Grammar::allows(const Position &position, const PieceTree &tree, llama_token token,
                     Effort &work) {
  if (tree.is_end(token)) return may_end(position);
  const std::string &piece = tree.piece(token);
  if (!tree.is_control(token) || std::binary_search(markers.begin(), markers.end(), token)) {
    Position moved = position;
    return accept(moved, token, piece.data(), piece.size(), work);
  }
  const std::lock_guard<std::mutex> lock(mutex);
  if (position.remaining > 0) return false;
  const uint32_t next = stacks.step_token(position.state, static_cast<uint32_t>(token), work);
  note_size();
  return next != Stacks::nothing;
}

bool Grammar::may_end(const Position &position) {
  const std::lock_guard<std::mutex> lock(mutex);
  return position.remaining == 0 && stacks.may_end(position.state);
}

bool Grammar::has_mask(const Position &position) {
  const std::lock_guard<std::mutex> lock(mutex);
  return masks.count(mask_key(position)) > 0;
}

void Grammar::remember(const Position &position, std::shared_ptr<const Mask> mask) {
  const std::lock_guard<std::mutex> lock(mutex);
  keep(position, mask);
}

void Grammar::keep(const Position &position, const std::shared_ptr<const Mask> &mask) {
  const size_t bytes = mask->allowed.size() + mask->tokens.size() * sizeof(llama_token) + 128;
  if (mask_bytes + bytes > most_mask_bytes) {
    masks.clear();
    mask_bytes = 0;
  }
  if (masks.emplace(mask_key(position), mask).second) mask_bytes += bytes;
}

// Collects the tokens whose bytes may follow.
void Grammar::walk(const Position &position, const PieceTree &tree,
                   std::vector<llama_token> &allowed, Effort &work) {
  // The positions before each byte of the current path.
  std::vector<Position> path(tree.longest + 1);
  path[0] = position;
  // If nearly every piece leads to its own state, the states would not fit. Then a temporary
  // grammar walks each top-level branch of the tree, and is dropped afterwards.
  std::shared_ptr<Grammar> passing;
  Grammar *walker = this;
  for (size_t i = 0; i < tree.nodes.size();) {
    const auto &node = tree.nodes[i];
    work.spend();
    if (node.depth == 0) walker->note_size();
    if (node.depth == 0 && walker->crowded()) {
      path[0] = position;
      passing = successor(path[0], work);
      walker = passing.get();
    }
    Position at = path[node.depth];
    if (!walker->feed(at, node.byte, work)) {
      i = node.next;
      continue;
    }
    path[node.depth + 1u] = at;
    if (node.token >= 0 &&
        (at.remaining == 0 || walker->stacks.may_begin(at.state, at.value, at.remaining, work))) {
      for (llama_token token = node.token; token >= 0;
           token = tree.twin[static_cast<size_t>(token)])
        allowed.push_back(token);
    }
    i++;
  }
}

std::shared_ptr<const Grammar::Mask> Grammar::mask(const Position &position, const PieceTree &tree,
                                                   Effort &work) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = masks.find(mask_key(position));
  if (found != masks.end()) return found->second;

  auto made = std::make_shared<Mask>();
  std::vector<llama_token> tokens;
  walk(position, tree, tokens, work);
  for (const llama_token marker : markers) {
    Position moved = position;
    const std::string &piece = tree.piece(marker);
    if (tree.is_control(marker) && feed_all(moved, piece.data(), piece.size(), work))
      tokens.push_back(marker);
  }
  if (position.remaining == 0) {
    if (stacks.may_end(position.state))
      tokens.insert(tokens.end(), tree.ends.begin(), tree.ends.end());
    if (stacks.names_tokens(position.state)) {
      stacks.each_token(position.state, [&](const GrammarRules::Element &element) {
        const auto named = static_cast<llama_token>(element.value);
        const bool other = element.kind == GrammarRules::Kind::other_token;
        work.spend(other ? static_cast<uint64_t>(tree.size()) : 1);
        for (llama_token token = other ? 0 : named; token < (other ? tree.size() : named + 1);
             token++) {
          if ((!other || token != named) && !tree.is_end(token) && !tree.piece(token).empty())
            tokens.push_back(token);
        }
      });
    }
  }
  made->few = tokens.size() <= few_tokens;
  if (made->few) {
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    made->tokens = std::move(tokens);
  } else {
    made->allowed.assign(static_cast<size_t>(tree.size()), 0);
    for (const llama_token token : tokens) made->allowed[static_cast<size_t>(token)] = 1;
  }
  keep(position, made);
  note_size();
  return made;
}

} // namespace recua
