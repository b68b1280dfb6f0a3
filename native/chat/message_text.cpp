// See message_text.h.
#include "chat/message_text.h"

#include "coded_error.h"
#include "json.h"

#include <algorithm>
#include <bitset>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <unordered_map>

namespace recua {

namespace {

size_t character_length(const std::string &text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  return std::min(length, text.size() - at);
}

// For characters from U+0800 to U+FFFF.
std::string utf8(uint32_t character) {
  return {static_cast<char>(0xE0 | character >> 12), static_cast<char>(0x80 | (character >> 6 & 0x3F)), static_cast<char>(0x80 | (character & 0x3F))};
}

// The JSON escape of a character.
std::string escaped(uint32_t character) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", character);
  return text;
}

std::optional<uint32_t> decoded(const std::string &text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.size() == 1) return byte(0);
  if (text.size() == 2) return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  if (text.size() == 3) return (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  return std::nullopt;
}

constexpr uint32_t first_private = 0xF000, last_private = 0xF8FF;
using PrivateUse = std::bitset<last_private - first_private + 1>;

// Adds the private-use characters of a text, as UTF-8 or as JSON's escapes, in one pass.
void add_private_use(const std::string &text, PrivateUse &used) {
  const auto add = [&](std::optional<uint32_t> character) {
    if (character >= first_private && character <= last_private) used.set(*character - first_private);
  };
  for (size_t at = text.find_first_of("\xEFu"); at != std::string::npos; at = text.find_first_of("\xEFu", at + 1)) {
    uint32_t value = 0;
    const char *digits = text.data() + at + 1, *end = digits + std::min<size_t>(4, text.size() - at - 1);
    if (text[at] != 'u') add(decoded(text.substr(at, 3)));
    else if (std::from_chars(digits, end, value, 16).ptr == digits + 4) add(value);
  }
}

// A character that begins control tokens or marks, and its twins.
struct Twin {
  std::string character;
  uint32_t plain = 0;
  uint32_t trusted = 0; // in texts where marks stay marks
  uint32_t spelled = 0; // for a character that JSON within JSON writes as \u and four digits
  // Each of the three, as text and as JSON's escape.
  std::vector<std::pair<uint32_t, std::string>> spellings = {};
};

class Twins {
public:
  Twins(const Specials &specials, const MessageTexts &texts, const std::string &source, const std::string &rendered)
      : specials(specials), source(source) {
    PrivateUse used;
    for (const std::string *in : {&texts.messages, &texts.tools, &source, &rendered}) add_private_use(*in, used);
    uint32_t next = 0;
    const auto unused = [&] {
      while (next < used.size() && used[next]) next++;
      if (next < used.size()) return first_private + next++;
      throw CodedError("invalid_messages", "Expected messages with fewer private-use characters (U+F000 to U+F8FF).");
    };
    for (const std::string &character : specials.mark_starts()) {
      Twin twin;
      twin.character = character;
      twin.plain = unused();
      twin.trusted = unused();
      twin.spelled = unused();
      for (const uint32_t one : {twin.plain, twin.trusted, twin.spelled}) {
        twin.spellings.emplace_back(one, utf8(one));
        twin.spellings.emplace_back(one, escaped(one));
      }
      of.push_back(twin);
    }
  }

  // `every`: replaces all such characters; otherwise all except those of tags that the template
  // mentions, such as </think>, because it searches for them.
  MessageTexts replace(const MessageTexts &texts, bool every) {
    replaced = false;
    all = every;
    trusted = true;
    const std::string tools = texts.tools.empty() ? "" : replaced_value(common_json::parse(texts.tools), "").dump();
    auto messages = common_json::array();
    for (const auto &message : common_json::parse(texts.messages)) {
      trusted = is_trusted(message);
      messages.push_back(replaced_value(message, ""));
    }
    return {messages.dump(), tools};
  }

  Prompt restore(const std::string &rendered) const {
    Prompt prompt;
    prompt.text.reserve(rendered.size());
    for (size_t at = 0; at < rendered.size();) {
      if (const size_t length = restore_one(rendered, at, prompt)) at += length;
      else prompt.text += rendered[at++];
    }
    for (int32_t &place : prompt.literal) {
      if (place < 0 && !specials.mark_at(prompt.text, static_cast<size_t>(~place), source)) place = ~place;
    }
    return prompt;
  }

  bool replaced = false;

private:
  size_t restore_one(const std::string &rendered, size_t at, Prompt &prompt) const {
    if (rendered[at] != '\\' && static_cast<unsigned char>(rendered[at]) != 0xEF) return 0; // first bytes of twins
    for (const Twin &twin : of) {
      for (const auto &[character, spelling] : twin.spellings) {
        if (rendered.compare(at, spelling.size(), spelling) != 0) continue;
        if (character == twin.spelled && spelling[0] == '\\') {
          prompt.text += escaped(*decoded(twin.character)); // JSON that stayed JSON
        } else {
          const auto place = static_cast<int32_t>(prompt.text.size());
          prompt.literal.push_back(character == twin.plain ? ~place : place);
          prompt.text += twin.character;
        }
        return spelling.size();
      }
    }
    return 0;
  }

  const Twin *twin_at(const std::string &text, size_t at) const {
    for (const Twin &twin : of) {
      if (text.compare(at, twin.character.size(), twin.character) == 0) return &twin;
    }
    return nullptr;
  }

  // Whether marks may keep their meaning in a message: true for authors of the prompt's frame and
  // the model itself.
  static bool is_trusted(const common_json &message) {
    if (!message.is_object() || !message.contains("role") || !message.at("role").is_string()) return false;
    const auto role = message.at("role").get<std::string>();
    return role == "assistant" || role == "system" || role == "developer";
  }

  static bool is_word(const std::string &text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  }

  std::string stand_in(const Twin &twin) const { return utf8(trusted ? twin.trusted : twin.plain); }

  common_json replaced_value(const common_json &value, const std::string &key) {
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      // Templates compare these, and turn roles into control tokens.
      if ((key == "role" || key == "type") && is_word(text)) return value;
      return common_json::make(key == "arguments" ? arguments(text) : string(text, all));
    }
    if (value.is_array()) {
      auto array = common_json::array();
      for (const auto &part : value) array.push_back(replaced_value(part, key));
      return array;
    }
    if (!value.is_object()) return value;
    auto object = common_json::object();
    for (const auto &[name, part] : value.items()) object.set({string(name, all), replaced_value(part, name)});
    return object;
  }

  std::string string(const std::string &text, bool every) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const Twin *twin = twin_at(text, at);
      if (twin != nullptr && (every || !mentioned(text, at))) {
        out += stand_in(*twin);
        at += twin->character.size();
        replaced = true;
        continue;
      }
      const size_t length = character_length(text, at);
      out.append(text, at, length);
      at += length;
    }
    return out;
  }

  // JSON in a string, which templates may print unchanged or parse. Replaces only inside its
  // strings, however they are spelled.
  std::string arguments(const std::string &text) {
    if (common_json::parse_no_throw(text).is_discarded()) return string(text, true);
    std::string out;
    bool inside = false;
    for (size_t at = 0; at < text.size();) {
      if (inside && text[at] == '\\') {
        at += escape(text, at, out);
      } else if (const Twin *twin = inside ? twin_at(text, at) : nullptr) {
        out += stand_in(*twin);
        at += twin->character.size();
        replaced = true;
      } else {
        if (text[at] == '"') inside = !inside;
        out += text[at++];
      }
    }
    return out;
  }

  size_t escape(const std::string &text, size_t at, std::string &out) {
    if (text[at + 1] == 'u') {
      const auto value = static_cast<uint32_t>(std::stoul(text.substr(at + 2, 4), nullptr, 16));
      for (const Twin &twin : of) {
        if (decoded(twin.character) != value) continue;
        out += escaped(twin.spelled);
        replaced = true;
        return 6;
      }
    }
    out.append(text, at, 2);
    return 2;
  }

  // True if a bracket opens here, the template contains the bracketed text, and that is not a
  // control token.
  bool mentioned(const std::string &text, size_t at) {
    const size_t end = text.substr(at, 48).find_first_of(">]");
    if (end == std::string::npos) return false;
    const std::string tag = text.substr(at, end + 1);
    const auto known = tags.find(tag);
    const bool found = known != tags.end() ? known->second : (tags[tag] = source.find(tag) != std::string::npos);
    return found && !specials.control_at(text, at) && (trusted || !specials.mark_at(text, at, source));
  }

  const Specials &specials;
  const std::string &source;
  std::unordered_map<std::string, bool> tags;
  std::vector<Twin> of;
  bool all = true;
  bool trusted = false;
};

// Replaces invalid UTF-8 by U+FFFD, as the way to JavaScript does, so that offsets stay valid.
std::string sound(const std::string &text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text, at);
    const auto first = static_cast<unsigned char>(text[at]);
    bool good = first < 0x80 || (first >= 0xC2 && first < 0xF5);
    for (size_t i = 1; good && i < length; i++) good = (static_cast<unsigned char>(text[at + i]) & 0xC0) == 0x80;
    const size_t wanted = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    good = good && length == wanted;
    if (good) out.append(text, at, length);
    else out += "\xEF\xBF\xBD";
    at += good ? length : 1;
  }
  return out;
}

} // namespace

Prompt keep_text(const Specials &specials, const std::string &rendered, const MessageTexts &texts,
                 const std::string &source, const std::function<std::string(const MessageTexts &)> &render) {
  Prompt prompt{sound(rendered), {}};
  Twins twins(specials, texts, source, rendered);
  std::string reason;
  for (const bool every : {true, false}) {
    const MessageTexts other = twins.replace(texts, every);
    if (!twins.replaced) return prompt;
    Prompt restored;
    const Outcome outcome = Outcome::of([&] { restored = twins.restore(sound(render(other))); });
    if (outcome.code != nullptr) {
      reason = outcome.message;
      continue;
    }
    // A template that inspects the text may have produced something else.
    if (!every || restored.text == prompt.text) return restored;
  }
  throw CodedError("invalid_messages", "Expected messages that do not contain the text of control tokens: this chat template fails when they are replaced (" + reason + ").");
}

} // namespace recua
