// The models that requests can name: GET /v1/models and /models, POST /models/load and
// /models/unload, as in llama-server's router. Every context size here is the one that the engine
// enforces. Routes mounted by app; health and model-events also use statusOf.
import type { Request, RequestHandler, Response } from 'express';
import type { ModelState, PoolModel } from '../../engine/pool-api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { wrongType, type Fields } from '../../request/fields.js';
import { rounds } from '../body/rounds.js';
import { errorBody } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import { untilAborted } from '../http/traffic.js';
import { readAll, readKeepAlive, readModelName, residence as stayOf } from '../exchange/admission.js';

/**
 * A model's state in llama-server's words, with its loading progress or the reason of a failure.
 */
export interface WireStatus {
  value: 'unloaded' | 'sleeping' | 'loading' | 'loaded' | 'unloading' | 'failed';
  fraction?: number;
  /** llama-server's field. */
  failed?: true;
  reason?: { message: string; code: string };
}

export function modelRoutes({ pool, poolFor, staysAnyway, traffic }: Gateway): Record<'list' | 'get' | 'load' | 'unload', RequestHandler> {
  // Requests cannot unload the model of a server with a single one.
  const fixed = pool.sole ? { fixed: true } : {};
  const entry = (model: PoolModel): object => ({ ...entryOf(model), ...fixed });
  return {
    list: async (_req: Request, res: Response) => {
      const models = await poolFor(res).list();
      // A list of thousands takes milliseconds, and all who asked at once get here at once.
      await rounds.next();
      res.json({ object: 'list', data: models.map(entry) });
    },
    get: async (req: Request, res: Response) => {
      // A wildcard yields decoded segments, so owner/repo and owner%2Frepo are the same name.
      const id = req.params['id'] as unknown as string[];
      res.json(entry(await poolFor(res).find(id.join('/'))));
    },
    load: async (req: Request, res: Response) => {
      const { asked: { name, keepAliveMs }, told } = readAll(req, readLoad);
      const { warnings: ofStay, ...stay } = stayOf(keepAliveMs, staysAnyway(res));
      const signal = traffic.enter(res, 'transfer');
      const model = await untilAborted(poolFor(res).load(name, stay), signal);
      const warnings = [...told.warnings ?? [], ...ofStay];
      res.json({ success: true, model: entry(model), ...(warnings.length > 0 ? { warnings } : {}) });
    },
    unload: async (req: Request, res: Response) => {
      const { asked: name, told } = readAll(req, readUnload);
      const signal = traffic.enter(res, 'transfer');
      const model = await untilAborted(poolFor(res).unload(name), signal);
      res.json({ success: true, model: entry(model), ...told });
    },
  };
}

export function readLoad(body: Fields): { name: string; keepAliveMs: number | undefined } {
  const keepAliveMs = readKeepAlive(body);
  return { name: readUnload(body), keepAliveMs };
}

export function readUnload(body: Fields): string {
  const name = readModelName(body);
  if (name === undefined || name === '') throw wrongType('model', 'the name of a model', name);
  return name;
}

function entryOf(model: PoolModel): object {
  const { id, aliases, createdSeconds, state, known, fileBytes } = model;
  const size = fileBytes || (known?.sizeBytes ?? 0);
  return {
    id,
    object: 'model',
    created: createdSeconds,
    owned_by: 'recua',
    aliases,
    status: { ...statusOf(state), ...(state.state === 'unloaded' || state.state === 'failed' ? {} : activity(model)) },
    ...residence(model),
    ...(size > 0 ? { file_bytes: size } : {}),
    ...(known === undefined ? {} : details(known)),
  };
}

export function statusOf(state: ModelState): WireStatus {
  switch (state.state) {
    case 'loading':
      return { value: 'loading', fraction: state.fraction };
    case 'failed': {
      const { message, code } = errorBody(RecuaError.fromPlain(state.error)).error;
      return { value: 'failed', failed: true, reason: { message, code } };
    }
    default:
      return { value: state.state };
  }
}

function activity({ activity: { running, waiting, tokensPerSecond } }: PoolModel): object {
  return { running, waiting, tokens_per_second: Math.round(tokensPerSecond * 10) / 10 };
}

/** Its memory, and how long it stays loaded. */
function residence({ sizeBytes, leases, pinned, expiresMs, fileChange }: PoolModel): object {
  return {
    memory_bytes: sizeBytes,
    requests: leases,
    pinned,
    expires_at: expiresMs === undefined ? null : Math.ceil(expiresMs / 1_000),
    // The file on disk is no longer the one that was loaded.
    ...(fileChange === undefined ? {} : { file: fileChange }),
  };
}

function details(model: ModelDescription): object {
  return {
    // Clients look for the context size under different names.
    max_model_len: model.contextSize,
    context_length: model.contextSize,
    context_window: model.contextSize,
    capabilities: capabilities(model),
    meta: {
      vocab_type: model.vocabType,
      n_vocab: model.vocabSize,
      n_ctx: model.contextSize,
      n_ctx_train: model.contextTrain,
      n_embd: model.embeddingSize,
      n_params: model.parameters,
      size: model.sizeBytes,
      ftype: model.fileType,
      devices: model.offload.devices,
      device_memory_bytes: model.deviceBytes,
      n_gpu_layers: model.offload.layers,
      n_layers: model.offload.totalLayers,
      description: model.description,
      // Tells commands on this machine whether this is the file that they would load.
      fingerprint: model.fingerprint,
    },
  };
}

/**
 * The last two are inferred from the text of the chat template; there is no list of model names.
 */
function capabilities(model: ModelDescription): string[] {
  const all: Record<string, boolean> = {
    completion: model.canGenerate,
    embedding: model.canEmbed,
    rerank: model.canRerank,
    tools: model.canGenerate && /\btools\b/.test(model.chatTemplate),
    reasoning: model.canGenerate && /enable_thinking|reasoning_content|<think>/.test(model.chatTemplate),
  };
  return Object.keys(all).filter((name) => all[name]);
}
