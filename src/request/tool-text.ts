// The tools of a request as the engine takes them: their JSON, and what errors must know of each.
// Called by those who read requests.
import type { ChatRequest, Tool } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';

/** A tool that was read, and the request's field that its parameters come from. */
export interface ReadTool {
  tool: Tool;
  param: string;
}

/** @throws RecuaError `invalid_type` for what JSON cannot hold. */
export function writeTools(tools: readonly ReadTool[]): Pick<ChatRequest, 'tools' | 'toolSources'> {
  const toolSources = tools.map(({ tool: { function: { name, strict = false } }, param }) => ({ name, strict, param }));
  try {
    return { tools: tools.length === 0 ? '' : JSON.stringify(tools.map(({ tool }) => tool)), toolSources };
  } catch (cause) {
    throw new RecuaError('invalid_type', `Expected what can be written as JSON for tools: ${(cause as Error).message}`, { param: 'tools', cause });
  }
}
