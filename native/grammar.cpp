// The automaton. Characters are decoded as llama.cpp's grammars decode them, quirks included: a sampler must accept what its
// grammar accepts, token by token (test/native/grammar.test.ts compares the two).
#include "grammar.h"

#include <algorithm>
#include <stdexcept>

namespace recua {

namespace {

constexpr size_t large_bytes = 32u << 20;
constexpr size_t crowded_bytes = 128u << 20;
constexpr size_t most_bytes = 512u << 20;
constexpr size_t most_mask_bytes = 64u << 20;

} // namespace

std::shared_ptr<Grammar> Grammar::parse(const llama_vocab *vocab, const std::string &text) {
  const std::unique_ptr<llama_grammar, decltype(&llama_grammar_free_impl)> parsed(
      llama_grammar_init_impl(vocab, text.c_str(), "root", false, nullptr, 0, nullptr, 0), llama_grammar_free_impl);
  if (!parsed) throw std::runtime_error("failed to parse grammar");
  const std::shared_ptr<Grammar> grammar(new Grammar());
  for (const auto &rule : llama_grammar_get_rules(parsed.get())) {
    grammar->rule_starts.push_back(static_cast<uint32_t>(grammar->elements.size()));
    for (const auto &element : rule) {
      if (element.type == LLAMA_GRETYPE_TOKEN || element.type == LLAMA_GRETYPE_TOKEN_NOT) return nullptr;
      grammar->elements.push_back(element);
    }
  }
  grammar->classify();
  if (grammar->bounds.size() > 65535) return nullptr;
  grammar->stacks.push_back({0, 0, {0}, true});
  grammar->first_state = grammar->locate(*parsed).state;
  return grammar;
}

Grammar::Position Grammar::locate(const llama_grammar &grammar) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto &rules = grammar.rules;
  std::vector<uint32_t> found;
  for (const auto &stack : grammar.stacks) {
    uint32_t id = 0;
    for (const llama_grammar_element *element : stack) {
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const llama_grammar_rule &one) {
        return !std::less<>()(element, one.data()) && std::less<>()(element, one.data() + one.size());
      });
      if (rule == rules.end()) throw std::runtime_error("a stack of another grammar");
      id = push(id, rule_starts[static_cast<size_t>(rule - rules.begin())] + static_cast<uint32_t>(element - rule->data()));
    }
    const auto &unfolded = unfold(id);
    found.insert(found.end(), unfolded.begin(), unfolded.end());
  }
  return {intern(std::move(found)), grammar.partial_utf8.value, grammar.partial_utf8.n_remain};
}

// Roughly, nodes of the maps included.
size_t Grammar::remembered_bytes() const {
  const size_t table = bounds.size() <= few_classes ? bounds.size() * sizeof(int32_t) : 0;
  return stacks.size() * 160 + states.size() * (240 + table) + listed * 2 * sizeof(uint32_t) + steps.size() * 48;
}

bool Grammar::is_large() {
  const std::lock_guard<std::mutex> lock(mutex);
  return remembered_bytes() > large_bytes;
}

bool Grammar::is_crowded() {
  const std::lock_guard<std::mutex> lock(mutex);
  return crowded();
}

// What it began with is no growth: a text nested very deeply may be large from the start.
bool Grammar::crowded() const { return remembered_bytes() > crowded_bytes + 2 * first_bytes; }

std::shared_ptr<Grammar> Grammar::begin_anew(Position &position) {
  const std::lock_guard<std::mutex> lock(mutex);
  return successor(position);
}

std::shared_ptr<Grammar> Grammar::successor(Position &position) const {
  const std::shared_ptr<Grammar> made(new Grammar());
  made->elements = elements;
  made->rule_starts = rule_starts;
  made->bounds = bounds;
  made->low_classes = low_classes;
  made->stacks.push_back({0, 0, {0}, true});
  std::vector<uint32_t> found, path;
  for (uint32_t stack : states[static_cast<size_t>(position.state)].stacks) {
    path.clear();
    for (; stack != 0; stack = stacks[stack].below) path.push_back(stacks[stack].element);
    uint32_t id = 0;
    for (auto element = path.rbegin(); element != path.rend(); ++element) id = made->push(id, *element);
    found.push_back(id);
  }
  made->first_state = position.state = made->intern(std::move(found));
  made->first_bytes = made->remembered_bytes();
  return made;
}

uint32_t Grammar::push(uint32_t below, uint32_t element) {
  const uint64_t key = (static_cast<uint64_t>(below) << 32) | element;
  const auto [found, added] = stack_ids.try_emplace(key, static_cast<uint32_t>(stacks.size()));
  if (added) {
    if (remembered_bytes() > most_bytes) throw std::runtime_error("the grammar is too ambiguous: it has too many ways to go on");
    stacks.push_back({below, element, {}, false});
  }
  return found->second;
}

bool Grammar::ends_alternative(uint32_t element) const {
  return elements[element].type == LLAMA_GRETYPE_END || elements[element].type == LLAMA_GRETYPE_ALT;
}

// Rule references on top are replaced by what their alternatives begin with.
const std::vector<uint32_t> &Grammar::unfold(uint32_t stack) {
  if (stacks[stack].closed) return stacks[stack].closure;
  std::vector<uint32_t> todo{stack}, seen{stack}, closure;
  const auto add = [&](uint32_t next) {
    if (std::find(seen.begin(), seen.end(), next) != seen.end()) return;
    seen.push_back(next);
    todo.push_back(next);
  };
  while (!todo.empty()) {
    const uint32_t current = todo.back();
    todo.pop_back();
    const uint32_t element = stacks[current].element;
    if (current == 0 || elements[element].type != LLAMA_GRETYPE_RULE_REF) {
      closure.push_back(current);
      continue;
    }
    const uint32_t rest = ends_alternative(element + 1) ? stacks[current].below : push(stacks[current].below, element + 1);
    for (uint32_t at = rule_starts[elements[element].value];; at++) {
      add(ends_alternative(at) ? rest : push(rest, at));
      while (!ends_alternative(at)) at++;
      if (elements[at].type == LLAMA_GRETYPE_END) break;
    }
  }
  std::sort(closure.begin(), closure.end());
  stacks[stack].closure = std::move(closure);
  stacks[stack].closed = true;
  return stacks[stack].closure;
}

int32_t Grammar::intern(std::vector<uint32_t> list) {
  if (list.empty()) return refused;
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  const auto [found, added] = state_ids.try_emplace(list, static_cast<int32_t>(states.size()));
  if (added) {
    listed += list.size();
    states.push_back({std::move(list), false, {}});
  }
  State &state = states[static_cast<size_t>(found->second)];
  state.may_end = state.stacks.front() == 0;
  return found->second;
}

// Behind a character element with its alternatives and ranges.
uint32_t Grammar::after(uint32_t element) const {
  do {
    element += elements[element + 1].type == LLAMA_GRETYPE_CHAR_RNG_UPPER ? 2 : 1;
  } while (elements[element].type == LLAMA_GRETYPE_CHAR_ALT);
  return element;
}

bool Grammar::matches(uint32_t element, uint32_t character) const {
  const bool wanted = elements[element].type != LLAMA_GRETYPE_CHAR_NOT;
  do {
    if (elements[element + 1].type == LLAMA_GRETYPE_CHAR_RNG_UPPER) {
      if (elements[element].value <= character && character <= elements[element + 1].value) return wanted;
      element += 2;
    } else {
      if (elements[element].type == LLAMA_GRETYPE_CHAR_ANY || elements[element].value == character) return wanted;
      element += 1;
    }
  } while (elements[element].type == LLAMA_GRETYPE_CHAR_ALT);
  return !wanted;
}

int32_t Grammar::compute_step(int32_t state, uint32_t character) {
  std::vector<uint32_t> found;
  for (size_t i = 0; i < states[static_cast<size_t>(state)].stacks.size(); i++) {
    const uint32_t stack = states[static_cast<size_t>(state)].stacks[i];
    if (stack == 0 || !matches(stacks[stack].element, character)) continue;
    const uint32_t next = after(stacks[stack].element);
    const uint32_t below = stacks[stack].below;
    const auto &unfolded = unfold(ends_alternative(next) ? below : push(below, next));
    found.insert(found.end(), unfolded.begin(), unfolded.end());
  }
  return intern(std::move(found));
}

void Grammar::classify() {
  bounds = {0};
  for (size_t i = 0; i < elements.size(); i++) {
    switch (elements[i].type) {
      case LLAMA_GRETYPE_CHAR:
      case LLAMA_GRETYPE_CHAR_NOT:
      case LLAMA_GRETYPE_CHAR_ALT:
        bounds.push_back(elements[i].value);
        // A range ends where its upper bound says, a single character with itself.
        if (elements[i + 1].type != LLAMA_GRETYPE_CHAR_RNG_UPPER) bounds.push_back(elements[i].value + 1);
        break;
      case LLAMA_GRETYPE_CHAR_RNG_UPPER: bounds.push_back(elements[i].value + 1); break;
      default: break;
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  low_classes.resize(65536);
  size_t current = 0;
  for (uint32_t character = 0; character < low_classes.size(); character++) {
    while (current + 1 < bounds.size() && bounds[current + 1] <= character) current++;
    low_classes[character] = static_cast<uint16_t>(std::min<size_t>(current, 65535));
  }
}

size_t Grammar::class_of(uint32_t character) const {
  if (character < low_classes.size()) return low_classes[character];
  return static_cast<size_t>(std::upper_bound(bounds.begin(), bounds.end(), character) - bounds.begin()) - 1;
}

int32_t Grammar::step(int32_t state, uint32_t character) {
  const size_t kind = class_of(character);
  if (bounds.size() > few_classes) {
    const uint64_t key = (static_cast<uint64_t>(state) << 32) | kind;
    const auto found = steps.find(key);
    if (found != steps.end()) return found->second;
    const int32_t next = compute_step(state, bounds[kind]);
    steps.emplace(key, next);
    return next;
  }
  auto &known = states[static_cast<size_t>(state)].next;
  if (known.empty()) known.assign(bounds.size(), unknown);
  if (known[kind] != unknown) return known[kind];
  const int32_t next = compute_step(state, bounds[kind]);
  return states[static_cast<size_t>(state)].next[kind] = next;
}

// One byte. `continues` says that it belongs to a character begun by an earlier token, where llama.cpp insists on a
// continuation byte; within one piece it does not.
bool Grammar::feed(Position &position, uint8_t byte, bool continues) {
  if (position.remaining > 0) {
    if (continues && (byte >> 6) != 2) return false;
    position.value = (position.value << 6) + (byte & 0x3f);
    if (--position.remaining > 0) return true;
  } else {
    static constexpr int8_t lengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 3, 4};
    position.remaining = lengths[byte >> 4] - 1;
    if (position.remaining < 0) return false;
    position.value = byte & ((1u << (7 - position.remaining)) - 1);
    if (position.remaining > 0) return true;
  }
  position.state = step(position.state, position.value);
  position.value = 0;
  return position.state != refused;
}

bool Grammar::element_may_begin(uint32_t element, uint32_t value, int32_t remaining) const {
  const bool wanted = elements[element].type != LLAMA_GRETYPE_CHAR_NOT;
  uint32_t low = value << (remaining * 6);
  const uint32_t high = low | ((1u << (remaining * 6)) - 1);
  if (low == 0 && remaining == 2) low = 1u << 11;
  if (low == 0 && remaining == 3) low = 1u << 16;
  do {
    if (elements[element + 1].type == LLAMA_GRETYPE_CHAR_RNG_UPPER) {
      if (elements[element].value <= high && low <= elements[element + 1].value) return wanted;
      element += 2;
    } else {
      if (elements[element].type == LLAMA_GRETYPE_CHAR_ANY) return true;
      if (low <= elements[element].value && elements[element].value <= high) return wanted;
      element += 1;
    }
  } while (elements[element].type == LLAMA_GRETYPE_CHAR_ALT);
  return !wanted;
}

// Whether a character that begins with these bytes can come.
bool Grammar::may_begin(int32_t state, uint32_t value, int32_t remaining) const {
  if (remaining == 1 && value < 2) return false; // an ASCII character in two bytes
  const auto &list = states[static_cast<size_t>(state)].stacks;
  return std::any_of(list.begin(), list.end(), [&](uint32_t stack) {
    return stack != 0 && element_may_begin(stacks[stack].element, value, remaining);
  });
}

bool Grammar::accept(Position &position, const std::string &piece) {
  const std::lock_guard<std::mutex> lock(mutex);
  Position moved = position;
  bool continues = moved.remaining > 0;
  for (const char c : piece) {
    if (!feed(moved, static_cast<uint8_t>(c), continues)) return false;
    continues = continues && moved.remaining > 0;
  }
  if (piece.empty() || (moved.remaining > 0 && !may_begin(moved.state, moved.value, moved.remaining))) return false;
  position = moved;
  return true;
}

bool Grammar::may_end(const Position &position) {
  const std::lock_guard<std::mutex> lock(mutex);
  return position.remaining == 0 && states[static_cast<size_t>(position.state)].may_end;
}

namespace {

std::pair<uint64_t, int32_t> mask_key(const Grammar::Position &position) {
  return {(static_cast<uint64_t>(position.state) << 32) | position.value, position.remaining};
}

} // namespace

bool Grammar::has_mask(const Position &position) {
  const std::lock_guard<std::mutex> lock(mutex);
  return masks.count(mask_key(position)) > 0;
}

std::shared_ptr<const Grammar::Mask> Grammar::mask(const Position &position, const PieceTree &tree) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto key = mask_key(position);
  const auto found = masks.find(key);
  if (found != masks.end()) return found->second;

  auto made = std::make_shared<Mask>();
  std::vector<llama_token> tokens;
  const auto allow = [&](llama_token token) { tokens.push_back(token); };
  if (position.remaining == 0 && states[static_cast<size_t>(position.state)].may_end) std::for_each(tree.ends.begin(), tree.ends.end(), allow);

  // Positions before each byte of the current path. Only its first bytes can continue a character of an earlier token.
  std::vector<Position> path(tree.longest + 1);
  std::vector<bool> continues(tree.longest + 1);
  path[0] = position;
  continues[0] = position.remaining > 0;
  // Where nearly every piece leads to a state of its own, what they all lead to would not fit: each of the tree's first branches is
  // then walked by one that is forgotten behind it.
  std::shared_ptr<Grammar> passing;
  Grammar *walker = this;
  for (size_t i = 0; i < tree.nodes.size();) {
    const auto &node = tree.nodes[i];
    if (node.depth == 0 && crowded()) {
      path[0] = position;
      passing = successor(path[0]);
      walker = passing.get();
    }
    Position at = path[node.depth];
    if (!walker->feed(at, node.byte, continues[node.depth])) {
      i = node.next;
      continue;
    }
    path[node.depth + 1u] = at;
    continues[node.depth + 1u] = continues[node.depth] && at.remaining > 0;
    if (node.token >= 0 && (at.remaining == 0 || walker->may_begin(at.state, at.value, at.remaining))) {
      for (llama_token token = node.token; token >= 0; token = tree.twin[static_cast<size_t>(token)]) allow(token);
    }
    i++;
  }
  made->few = tokens.size() <= few_tokens;
  if (made->few) {
    std::sort(tokens.begin(), tokens.end());
    made->tokens = std::move(tokens);
  } else {
    made->allowed.assign(static_cast<size_t>(tree.size()), 0);
    for (const llama_token token : tokens) made->allowed[static_cast<size_t>(token)] = 1;
  }

  const size_t bytes = made->allowed.size() + made->tokens.size() * sizeof(llama_token);
  if (mask_bytes + bytes > most_mask_bytes) {
    masks.clear();
    mask_bytes = 0;
  }
  mask_bytes += bytes;
  masks.emplace(key, made);
  return made;
}

} // namespace recua
