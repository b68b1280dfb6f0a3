// The models that an API key may use. Others are neither listed nor leased.
import type { ModelPool, PoolModel } from '../../engine/pool-api.js';
import { RecuaError } from '../../errors.js';
import type { ApiKey, ApiKeys } from '../access/api-keys.js';

export function visibleTo(key: ApiKey | undefined, pool: ModelPool): ModelPool {
  const allowed = key?.models;
  if (!allowed) return pool;
  const isAllowed = ({ id, aliases }: PoolModel): boolean => [id, ...aliases].some((name) => allowed.includes(name));
  const find = async (name: string | undefined): Promise<PoolModel> => {
    const model = await pool.find(name).catch((thrown: unknown) => { throw withoutOthers(thrown, key.name, allowed); });
    // The key file may also use names that the model does not list.
    if (isAllowed(model) || (name !== undefined && allowed.includes(name))) return model;
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

/** Warns of names in the key file that no model has: a typing error, or a model that is missing. */
export async function warnOfUnknown(keys: ApiKeys, pool: ModelPool, log: (level: 'warn', text: string) => void): Promise<void> {
  let left = mostWarnings;
  for (const [model, key] of keys.limitedTo) {
    if (left === 0) return;
    const code = await pool.find(model).then(() => '', (thrown: unknown) => RecuaError.from(thrown).code);
    if (code !== 'model_not_found') continue;
    left--;
    log('warn', `The API key ${key} is limited to ${JSON.stringify(model)}, which this server does not have.`);
  }
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
