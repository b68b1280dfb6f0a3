// The lookup of draft.h and the cost bookkeeping. Runs on the compute thread, except for the
// construction of a Drafter.
#include "context/draft.h"

#include <algorithm>

namespace recua {

namespace {

constexpr double learning = 1.0 / 8;
constexpr size_t smallest_table = 1024;

// Assumed cost of one more guess until it is measured, as a fraction of a step without guesses.
// Lower than most real costs, so that the guess gets tried and measured.
constexpr double first_cost = 0.2;
// A smaller gain is noise.
constexpr double least_gain = 1.1;
// Steps without guesses to measure first; the very first of a kind is slow.
constexpr size_t first_plain = 4;
// After this many steps with guesses, one without: the baseline changes as the context grows.
constexpr size_t longest_drafting = 64;
// How fast a high cost is forgotten: another program may have been busy when it was measured.
constexpr double forgetting = 1.0 / 512;

} // namespace

Drafter::Drafter(const std::vector<llama_token> &history, const std::vector<llama_token> &predicted) : tokens(predicted) {
  tokens.insert(tokens.end(), history.begin(), history.end());
  size_t size = smallest_table;
  while (size < 2 * tokens.size()) size *= 2;
  latest.assign(size, 0);
  for (size_t end = length; end < tokens.size(); end++) note(end);
  if (tokens.size() < length) return;
  find();
  note(tokens.size());
  if (!predicted.empty()) next = 0; // even if the history ends in a repetition
}

// The slot of the `length` tokens before `end`.
size_t Drafter::place(size_t end) const {
  uint64_t hash = 0;
  for (size_t i = end - length; i < end; i++) hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15;
  return static_cast<size_t>(hash >> 32) & (latest.size() - 1);
}

void Drafter::note(size_t end) { latest[place(end)] = static_cast<int32_t>(end); }

// The last earlier occurrence of the final `length` tokens, which are not noted yet themselves.
void Drafter::find() {
  const auto found = static_cast<size_t>(latest[place(tokens.size())]);
  const auto end = tokens.end();
  const auto last = static_cast<std::ptrdiff_t>(length);
  if (found == 0 || !std::equal(end - last, end, tokens.begin() + static_cast<std::ptrdiff_t>(found) - last)) return;
  next = static_cast<int64_t>(found);
}

void Drafter::accept(llama_token token) {
  if (next >= 0) {
    const bool hit = tokens[static_cast<size_t>(next)] == token;
    double &chance = chances[stage(hits)];
    chance += ((hit ? 1.0 : 0.0) - chance) * learning;
    next = hit ? next + 1 : -1;
    hits = hit ? hits + 1 : 0;
  }
  tokens.push_back(token);
  if (tokens.size() < length) return;
  if (2 * tokens.size() > latest.size()) {
    latest.assign(2 * latest.size(), 0);
    for (size_t end = length; end < tokens.size(); end++) note(end);
  }
  if (next < 0) find();
  note(tokens.size());
}

void Drafter::guess(size_t count, llama_token *out) const {
  const auto from = static_cast<size_t>(next);
  const size_t period = tokens.size() - from;
  for (size_t i = 0; i < count; i++) out[i] = tokens[from + i % period];
}

DraftCosts::DraftCosts(size_t sequences, size_t most_guesses, bool always) : rows(sequences), always(always) {
  for (Row &row : rows) row.ms.assign(most_guesses + 1, 0);
}

void DraftCosts::measured(size_t sequences, size_t guesses, double ms) {
  if (sequences > rows.size()) return;
  Row &row = rows[sequences - 1];
  double &known = row.ms[guesses];
  // Bounds the weight of a step that had to wait for another program.
  known = known == 0 ? ms : known + (std::min(ms, 2 * known) - known) / 4;
  row.drafted = guesses == 0 ? 0 : row.drafted + 1;
  if (guesses > 0) return;
  row.plain++;
  for (size_t i = 1; i < row.ms.size(); i++) {
    if (row.ms[i] > 0) row.ms[i] -= std::max(0.0, row.ms[i] - first_estimate(row, i)) * forgetting;
  }
}

double DraftCosts::first_estimate(const Row &row, size_t guesses) { return row.ms[0] * (1 + first_cost * static_cast<double>(guesses)); }

double DraftCosts::estimate(const Row &row, size_t guesses) {
  if (row.ms[guesses] > 0) return row.ms[guesses];
  size_t below = guesses;
  while (below > 0 && row.ms[below] == 0) below--;
  size_t above = guesses;
  while (above < row.ms.size() && row.ms[above] == 0) above++;
  const auto distance = static_cast<double>(guesses - below);
  if (above == row.ms.size()) return row.ms[below] + first_cost * row.ms[0] * distance;
  return row.ms[below] + (row.ms[above] - row.ms[below]) * distance / static_cast<double>(above - below);
}

size_t DraftCosts::best(const std::vector<const Drafter *> &drafters, size_t most) {
  if (drafters.size() > rows.size()) return 0;
  const Row &row = rows[drafters.size() - 1];
  if (always) return std::min(most, row.ms.size() - 1);
  if (row.plain < first_plain || row.drafted >= longest_drafting) return 0;
  auto tokens = static_cast<double>(drafters.size());
  double rate = least_gain * tokens / row.ms[0];
  size_t found = 0;
  std::vector<double> reached(drafters.size(), 1);
  for (size_t count = 1; count <= std::min(most, row.ms.size() - 1); count++) {
    for (size_t i = 0; i < drafters.size(); i++) tokens += reached[i] *= drafters[i]->chance(count - 1);
    const double promised = tokens / estimate(row, count);
    if (promised <= rate) continue;
    rate = promised;
    found = count;
  }
  return found;
}

} // namespace recua
