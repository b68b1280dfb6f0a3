// Pattern → program; see regex.h. Recursion is as deep as the pattern's parentheses.
#include "regex.h"

#include <stdexcept>

namespace recua::regex {

namespace {

constexpr uint32_t unlimited = UINT32_MAX;

struct Node {
  enum class Kind { sequence, choice, set, repeat, look, end, boundary };
  Kind kind = Kind::sequence;
  std::vector<Node> parts; // of all but sets, ends and boundaries; one for a repeat or a look
  CharSet set;
  uint32_t least = 0, most = 0;
  bool negative = false;
};

// True if it matches at any position.
bool always(const Node &node) {
  switch (node.kind) {
  case Node::Kind::sequence:
    for (const Node &part : node.parts) {
      if (!always(part)) return false;
    }
    return true;
  case Node::Kind::choice:
    for (const Node &part : node.parts) {
      if (always(part)) return true;
    }
    return false;
  case Node::Kind::repeat: return node.least == 0 || always(node.parts[0]);
  default: return false;
  }
}

// True if it can match without consuming a character.
bool takes_nothing(const Node &node) {
  switch (node.kind) {
  case Node::Kind::set: return false;
  case Node::Kind::sequence:
    for (const Node &part : node.parts) {
      if (!takes_nothing(part)) return false;
    }
    return true;
  case Node::Kind::choice:
    for (const Node &part : node.parts) {
      if (takes_nothing(part)) return true;
    }
    return false;
  case Node::Kind::repeat: return node.least == 0 || takes_nothing(node.parts[0]);
  default: return true;
  }
}

class Parser {
public:
  explicit Parser(const std::vector<uint32_t> &pattern) : pattern(pattern) {}

  Node parse() {
    Node node = choice();
    if (at < pattern.size()) unknown();
    return node;
  }

private:
  [[noreturn]] void unknown() const {
    throw std::runtime_error("The pre-tokenizer's pattern has unsupported syntax at character " + std::to_string(at) + ".");
  }
  bool next_is(uint32_t c) const { return at < pattern.size() && pattern[at] == c; }
  bool take(uint32_t c) {
    if (!next_is(c)) return false;
    at++;
    return true;
  }
  uint32_t take() {
    if (at >= pattern.size()) unknown();
    return pattern[at++];
  }

  Node choice() {
    Node node;
    node.kind = Node::Kind::choice;
    do {
      node.parts.push_back(sequence());
    } while (take('|'));
    if (node.parts.size() > 1) return node;
    Node only = std::move(node.parts[0]);
    return only;
  }

  Node sequence() {
    Node node;
    while (at < pattern.size() && !next_is('|') && !next_is(')')) {
      Node next = quantified();
      // (?=[ab])[bc] is [b], so that a loop over it is a loop over a set.
      const bool joins = next.kind == Node::Kind::set && !node.parts.empty() && node.parts.back().kind == Node::Kind::look
        && !node.parts.back().negative && node.parts.back().parts[0].kind == Node::Kind::set;
      if (joins) {
        next.set = next.set.intersection(node.parts.back().parts[0].set);
        node.parts.back() = std::move(next);
      } else {
        node.parts.push_back(std::move(next));
      }
    }
    if (node.parts.size() != 1) return node;
    Node only = std::move(node.parts[0]);
    return only;
  }

  Node quantified() {
    Node inner = atom();
    uint32_t least = 0;
    uint32_t most = unlimited;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      least = most = number();
      if (take(',')) most = next_is('}') ? unlimited : number();
      if (!take('}') || most < least) unknown();
    } else {
      return inner;
    }
    if (next_is('?') || next_is('+') || next_is('*') || next_is('{')) unknown();
    if (most == unlimited && takes_nothing(inner)) unknown();
    Node node;
    node.kind = Node::Kind::repeat;
    node.least = least;
    node.most = most;
    node.parts.push_back(std::move(inner));
    return node;
  }

  uint32_t number() {
    uint32_t value = 0;
    const size_t first = at;
    while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9' && value < 10000) value = value * 10 + (pattern[at++] - '0');
    if (at == first || value >= 10000) unknown();
    return value;
  }

  Node atom() {
    Node node;
    if (take('(')) {
      bool look = false;
      if (take('?')) {
        node.negative = next_is('!');
        look = !next_is(':');
        if (!take(':') && !take('=') && !take('!')) unknown();
      }
      Node inner = choice();
      if (!take(')')) unknown();
      if (!look) return inner;
      node.kind = Node::Kind::look;
      node.parts.push_back(std::move(inner));
      return node;
    }
    if (take('$')) {
      node.kind = Node::Kind::end;
      return node;
    }
    node.kind = Node::Kind::set;
    if (take('[')) {
      node.set = bracket();
      return node;
    }
    const uint32_t c = take();
    if (c == '\\') {
      if (take('b')) {
        node.kind = Node::Kind::boundary;
        return node;
      }
      escape(node.set);
    } else if (c == '.' || c == '^' || c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == ']') {
      at--;
      unknown();
    } else {
      node.set.add(c, c);
    }
    node.set.finish();
    return node;
  }

  // After a backslash. Returns true for a class, whose characters are added; otherwise stores the
  // character in `single`.
  bool escape(CharSet &set, uint32_t *single = nullptr) {
    uint32_t c = take();
    CharSet of;
    switch (c) {
    case 's': case 'S':
      of.add('\t', '\r');
      of.add(' ', ' ');
      of.finish(c == 'S');
      set.add(of);
      return true;
    case 'd': case 'D':
      of.add('0', '9');
      of.finish(c == 'D');
      set.add(of);
      return true;
    case 'r': c = '\r'; break;
    case 'n': c = '\n'; break;
    case 't': c = '\t'; break;
    default:
      if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) unknown();
    }
    if (single != nullptr) *single = c;
    else set.add(c, c);
    return false;
  }

  CharSet bracket() {
    CharSet set;
    const bool negated = take('^');
    if (next_is(']')) unknown();
    const auto one = [&](uint32_t &c) {
      c = take();
      if (c == '\\') return !escape(set, &c);
      if (c == '[' && (next_is(':') || next_is('.') || next_is('='))) unknown();
      return true;
    };
    while (!take(']')) {
      uint32_t first = 0;
      if (!one(first)) continue;
      uint32_t last = first;
      if (next_is('-') && at + 1 < pattern.size() && pattern[at + 1] != ']') {
        at++;
        if (!one(last) || last < first) unknown();
      }
      set.add(first, last);
    }
    set.finish(negated);
    return set;
  }

  const std::vector<uint32_t> &pattern;
  size_t at = 0;
};

class Emitter {
public:
  Program program;

  // `safe`: what follows always matches, so the longest way through a set is the right one.
  // `looking`: in a look-ahead, where only the success of the match counts.
  void emit(const Node &node, bool safe, bool looking) {
    switch (node.kind) {
    case Node::Kind::set: add({Op::set, add_set(node.set)}); break;
    case Node::Kind::end: add({Op::end}); break;
    case Node::Kind::boundary: add({Op::boundary}); break;
    case Node::Kind::sequence:
      for (size_t i = 0; i < node.parts.size(); i++) {
        bool rest = safe;
        for (size_t j = i + 1; j < node.parts.size(); j++) rest = rest && always(node.parts[j]);
        emit(node.parts[i], rest, looking);
      }
      break;
    case Node::Kind::choice: emit_choice(node, safe, looking); break;
    case Node::Kind::look: {
      const size_t look = add({Op::look, node.negative ? 1u : 0u});
      emit(node.parts[0], true, true);
      add({Op::accept});
      program.code[look].y = size();
      break;
    }
    case Node::Kind::repeat: emit_repeat(node, safe, looking); break;
    }
  }

  size_t add(Instruction instruction) {
    program.code.push_back(instruction);
    if (program.code.size() > 100000) throw std::runtime_error("The pre-tokenizer's pattern is too long.");
    return program.code.size() - 1;
  }

private:
  uint32_t size() const { return static_cast<uint32_t>(program.code.size()); }
  uint32_t add_set(const CharSet &set) {
    program.sets.push_back(set);
    return static_cast<uint32_t>(program.sets.size() - 1);
  }

  void emit_choice(const Node &node, bool safe, bool looking) {
    std::vector<size_t> jumps;
    for (size_t i = 0; i < node.parts.size(); i++) {
      const bool last = i + 1 == node.parts.size();
      const size_t split = last ? 0 : add({Op::split});
      emit(node.parts[i], safe, looking);
      if (last) break;
      jumps.push_back(add({Op::jump}));
      program.code[split].y = size();
    }
    for (const size_t jump : jumps) program.code[jump].y = size();
  }

  void emit_repeat(const Node &node, bool safe, bool looking) {
    const Node &inner = node.parts[0];
    const bool more = node.most > node.least;
    for (uint32_t i = 0; i < node.least; i++) {
      const bool rest = i + 1 == node.least ? safe : safe && always(inner);
      emit(inner, rest, looking);
    }
    if (!more || (looking && safe)) return; // the length of the match does not matter
    if (node.most < unlimited) {
      std::vector<size_t> splits;
      for (uint32_t i = node.least; i < node.most; i++) {
        splits.push_back(add({Op::split}));
        emit(inner, safe, looking);
      }
      for (const size_t split : splits) program.code[split].y = size();
    } else if (safe && inner.kind == Node::Kind::set) {
      add({Op::span, add_set(inner.set)});
    } else {
      const size_t loop = add({Op::loop, program.loops++});
      program.looks_loop = program.looks_loop || looking;
      emit(inner, safe, looking);
      const size_t back = add({Op::jump});
      program.code[back].y = static_cast<uint32_t>(loop);
      program.code[loop].y = size();
    }
  }
};

} // namespace

Program compile(const std::vector<uint32_t> &pattern) {
  Emitter emitter;
  emitter.emit(Parser(pattern).parse(), true, false);
  emitter.add({Op::accept});
  return std::move(emitter.program);
}

} // namespace recua::regex
