// Shortens a conversation that does not fit the context, if the request asks for that: drops whole
// turns, the oldest first. System messages, tools and the last turn stay. Called by chat.
import type { PreparedChat } from '../../addon/addon.js';
import type { ChatMessage, ChatRequest } from '../protocol.js';

/** Most of the context that is reserved for the answer. */
const answerShare = 1 / 4;

interface Shortened {
  prepared: PreparedChat;
  warning: string;
}

/** How many messages of the user there are: quotes in texts have a backslash. */
export function userMessages({ messages }: Pick<ChatRequest, 'messages'>): number {
  return messages.match(/"role":"user"/g)?.length ?? 0;
}

/**
 * Drops as few turns as possible. `prepare` gets a request and the limit of its tokens. Undefined
 * if not even the last turn fits, or if it is the only one.
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
      ...request,
      messages: JSON.stringify(kept.map((index) => messages[index])),
      messageSources: kept.map((index) => sourceOf(request, index)),
    };
  };
  const mostTokens = contextSize - Math.min(request.maxTokens, Math.floor(contextSize * answerShare));
  let [fewest, most] = [1, turns.length - 1];
  if (most < fewest) return undefined;
  let found: { count: number; prepared: PreparedChat } | undefined;
  while (fewest <= most) {
    const count = Math.floor((fewest + most) / 2);
    const prepared = await prepare(without(count), mostTokens).catch((thrown: unknown) => {
      close(found?.prepared);
      throw thrown;
    });
    if (prepared.made) {
      close(found?.prepared);
      found = { count, prepared };
      most = count - 1;
    } else fewest = count + 1;
  }
  // The last turn may need the room reserved for the answer.
  if (!found) {
    const count = turns.length - 1;
    const prepared = await prepare(without(count), contextSize);
    if (!prepared.made) return undefined;
    found = { count, prepared };
  }
  return { prepared: found.prepared, warning: warningOf(request, turns.slice(0, found.count).flat(), messages.length, contextSize) };
}

/**
 * Indices of messages by turn: a user's message and all that follow it. System messages are in
 * none.
 */
function turnsOf(messages: readonly ChatMessage[]): number[][] {
  const turns: number[][] = [];
  let before: string | undefined;
  for (const [index, { role }] of messages.entries()) {
    if (role === 'system') continue;
    // Several user messages in a row are one turn.
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
