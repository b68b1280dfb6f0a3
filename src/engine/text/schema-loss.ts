// Keywords of a JSON schema that the grammar does not enforce: an error if the schema is strict,
// else a warning. Called by chat. Pure.
import type { Unenforced } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import type { Constraint, ToolSource } from '../protocol.js';

/** Further ones are counted, not named. */
const mostNamed = 10;

interface Source {
  /** Its name in a sentence. */
  name: string;
  strict: boolean;
  param: string;
}

/**
 * The answer's warnings.
 * @throws RecuaError `invalid_schema` if a strict schema has such a keyword
 */
export function schemaWarnings(unenforced: Unenforced[], constraint: Constraint, tools: readonly ToolSource[]): string[] {
  const bySource = new Map<number, Unenforced[]>();
  for (const one of unenforced) {
    const known = bySource.get(one.tool);
    if (known) known.push(one);
    else bySource.set(one.tool, [one]);
  }
  return [...bySource].map(([tool, losses]) => {
    const { name, strict, param } = sourceOf(tool, constraint, tools);
    const list = listOf(losses);
    if (!strict) return `Not enforced of ${name}: ${list}.`;
    throw new RecuaError('invalid_schema',
      `Expected ${name} to have only keywords that can be enforced, as it is strict, got ${list}. Leave them out, or send "strict": false, and the answer's warnings will name them.`,
      { param });
  });
}

/** The strict schemas, by native code's numbers: tools by index, -1 for the answer's schema. */
export function strictSources(constraint: Constraint, tools: readonly ToolSource[]): Int32Array {
  return Int32Array.from([-1, ...tools.keys()].filter((index) => sourceOf(index, constraint, tools).strict));
}

/** Adds the request's field to native errors about a schema or the template. */
export function chatError(thrown: unknown, constraint: Constraint, tools: readonly ToolSource[], messages?: readonly string[]): RecuaError {
  const error = RecuaError.from(thrown);
  if (error.code === 'invalid_schema') {
    const { index } = thrown as { index?: number };
    // Errors of the tools' JSON as a whole name no tool.
    if (/ the tools[,.]/.test(error.message)) return new RecuaError('invalid_schema', error.message, { param: 'tools', cause: thrown });
    const { name, param } = sourceOf(index ?? -1, constraint, tools);
    const message = index === undefined ? error.message : error.message.replace('The JSON schema', () => `The JSON schema of ${name}`);
    return new RecuaError('invalid_schema', message, { param, cause: thrown });
  }
  if (error.code === 'invalid_messages') {
    const { index } = thrown as { index?: number };
    const param = index === undefined ? 'messages' : messages?.[index] ?? `messages[${index}]`;
    const message = `The chat template does not take ${index === undefined ? 'these messages' : param}: ${plain(error.message)}`;
    return new RecuaError('invalid_messages', message, { param, cause: thrown });
  }
  return error;
}

function sourceOf(index: number, constraint: Constraint, tools: readonly ToolSource[]): Source {
  const tool = tools[index];
  if (tool) return { ...tool, name: `the parameters of tool ${JSON.stringify(tool.name)}` };
  const { strict, param } = constraint.kind === 'schema' ? constraint : { strict: false, param: 'tools' };
  return { name: 'the JSON schema', strict, param };
}

function listOf(losses: Unenforced[]): string {
  const named = losses.slice(0, mostNamed).map(({ pointer, why }) => `#${pointer} (${why})`).join(', ');
  return losses.length > mostNamed ? `${named} and ${losses.length - mostNamed} more` : named;
}

/** A template's error message, without the source positions that llama.cpp adds. */
function plain(message: string): string {
  const said = message.split('\n').map((line) => line.trim()).filter((line) => line !== '' && !/^(\^+|-+|at row|while executing|~+)/i.test(line));
  const raised = said.find((line) => line.includes('Jinja Exception:'))?.split('Jinja Exception:')[1]?.trim();
  const text = raised ?? said[0] ?? 'it gives no reason';
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
