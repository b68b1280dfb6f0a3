// The models that an API key may use. Others are neither listed nor leased.
import type { ModelPool, PoolModel } from '../../engine/pool-api.js';
import { RecuaError } from '../../errors.js';
import type { ApiKey, ApiKeys } from '../access/api-keys.js';

export function visibleTo(key: ApiKey | undefined, pool: ModelPool): ModelPool {
  const allowed = key?.models;
  if (!allowed) return pool;
  // Each name in the list means that model and no other.
  const isAllowed = ({ id, aliases }: PoolModel): boolean => [id, ...aliases].some((name) => allowed.includes(name));
  const find = async (name: string | undefined): Promise<PoolModel> => {
    const model = await pool.find(name).catch((thrown: unknown) => { throw withoutOthers(thrown, key.name, allowed); });
    // The key file may also use names that the model does not list.
    if (allowed.includes(name === undefined || name === '' ? 'default' : name)) return model;
    const listed = (await pool.list()).find(({ id }) => id === model.id);
    if (listed && isAllowed(listed)) return model;
    throw new RecuaError('client_refused', `The API key ${key.name} may use ${allowed.join(', ')}, but not ${name === undefined || name === '' ? 'the default model, which a request without a model uses' : model.id}.`, { param: 'model' });
  };
  return {
    ...(pool.sole ? { sole: pool.sole } : {}),
    find,
    list: async () => (await pool.list()).filter(isAllowed),
    lease: async (name, options) => await pool.lease((await find(name)).id, options),
    load: async (name, options) => await pool.load((await find(name)).id, options),
    unload: async (name) => await pool.unload((await find(name)).id),
    onChange: (listener) => pool.onChange((model) => {
      if (isAllowed(model)) listener(model);
    }),
    close: (drainMs) => pool.close(drainMs),
  };
}

/** Most of these warnings: thousands of keys may have thousands of wrong names. */
const mostWarnings = 20;

/**
 * Warns of names in the key file that no model has, that mean several, or that are written
 * otherwise: a key gets its models by names of the list.
 */
export async function warnOfUnknown(keys: ApiKeys, pool: ModelPool, log: (level: 'warn', text: string) => void): Promise<void> {
  let left = mostWarnings;
  for (const [model, key] of keys.limitedTo) {
    if (left === 0) return;
    const found = await pool.find(model).catch(RecuaError.from);
    const problem = found instanceof RecuaError ? problems[found.code] : otherCase(model, found);
    if (problem === undefined) continue;
    left--;
    log('warn', `The API key ${key} is limited to ${JSON.stringify(model)}, ${problem}.`);
  }
}

const problems: Partial<Record<string, string>> = {
  model_not_found: 'which this server does not have',
  ambiguous_model: 'which means several models of this server; give it one of their other names',
};

function otherCase(name: string, { id, aliases }: PoolModel): string | undefined {
  const names = [id, ...aliases];
  const near = names.find((one) => one.toLowerCase() === name.toLowerCase());
  return near === undefined || names.includes(name) ? undefined : `but the model is called ${JSON.stringify(near)}; write the name like that`;
}

/**
 * The pool's words about a missing, unknown or ambiguous name list models that the key may not use.
 */
function withoutOthers(thrown: unknown, key: string, allowed: readonly string[]): unknown {
  if (!(thrown instanceof RecuaError) || thrown.param !== 'model') return thrown;
  const what = thrown.code === 'invalid_type' ? 'Expected the name of a model, and this server has no default one'
    : thrown.code === 'ambiguous_model' ? 'This name means several models' : 'There is no such model here';
  return new RecuaError(thrown.code, `${what}. The API key ${key} may use ${allowed.join(', ')}.`, { param: 'model', cause: thrown });
}
