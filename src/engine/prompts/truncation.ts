// A conversation that does not fit the context, made shorter where the request asks for that: whole
// turns are left out, the oldest first. What the system says, tools and the last turn stay. Called
// by chat.
import type { PreparedChat } from '../../addon/addon.js';
import type { ChatMessage, ChatRequest } from '../protocol.js';

/** Of the context, so much is left for an answer that may be that long. */
const answerShare = 1 / 4;

interface Shortened {
  prepared: PreparedChat;
  warning: string;
}

/**
 * Leaves out as few turns as can be. `prepare` gets a request and the bound of its tokens.
 * Undefined where not even the last turn fits, or there is no other.
 */
export async function shorten(
  request: ChatRequest, contextSize: number, prepare: (request: ChatRequest, mostTokens: number) => Promise<PreparedChat>,
): Promise<Shortened | undefined> {
  const messages = JSON.parse(request.messages) as ChatMessage[];
  const turns = turnsOf(messages);
  const without = (count: number): ChatRequest => {
    const dropped = new Set(turns.slice(0, count).flat());
    const kept = [...messages.keys()].filter((index) => !dropped.has(index));
    return {
      ...request, messages: JSON.stringify(kept.map((index) => messages[index])), messageSources: kept.map((index) => sourceOf(request, index)),
    };
  };
  const mostTokens = contextSize - Math.min(request.maxTokens, Math.floor(contextSize * answerShare));
  let [fewest, most] = [1, turns.length - 1];
  if (most < fewest) return undefined;
  let found: { count: number; prepared: PreparedChat } | undefined;
  while (fewest <= most) {
    const count = Math.floor((fewest + most) / 2);
    const prepared = await prepare(without(count), mostTokens);
    if (prepared.made) {
      close(found?.prepared);
      found = { count, prepared };
      most = count - 1;
    } else fewest = count + 1;
  }
  // The last turn may need what an answer would be left.
  if (!found) {
    const count = turns.length - 1;
    const prepared = await prepare(without(count), contextSize);
    if (!prepared.made) return undefined;
    found = { count, prepared };
  }
  return { prepared: found.prepared, warning: warningOf(request, turns.slice(0, found.count).flat(), messages.length, contextSize) };
}

/** Indices of messages by turn: what a user says, with all that follows; a system's are in none. */
function turnsOf(messages: readonly ChatMessage[]): number[][] {
  const turns: number[][] = [];
  let before: string | undefined;
  for (const [index, { role }] of messages.entries()) {
    if (role === 'system') continue;
    // Several of a user in a row are one turn.
    if (turns.length === 0 || (role === 'user' && before !== 'user')) turns.push([]);
    turns.at(-1)!.push(index);
    before = role;
  }
  return turns;
}

function close(prepared: PreparedChat | undefined): void {
  prepared?.made?.sampler.close();
  prepared?.made?.parser.close();
}

function sourceOf({ messageSources }: ChatRequest, index: number): string {
  return messageSources?.[index] ?? `messages[${index}]`;
}

function warningOf(request: ChatRequest, dropped: readonly number[], total: number, contextSize: number): string {
  const [first, last] = [sourceOf(request, dropped[0]!), sourceOf(request, dropped.at(-1)!)];
  const which = dropped.length === 1 ? first : `${first} to ${last}`;
  return `The conversation does not fit the context of ${contextSize} tokens, so its oldest turns were left out: ${which} (${dropped.length} of ${total} messages).`;
}
