// Which model is served, under which names, and GET /v1/models. Every context size told here is the one the engine enforces.
// Routes mounted by app; checkModel is called by the inference routes.
import type { Request, RequestHandler, Response } from 'express';
import type { Engine } from '../../engine/api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { describe } from '../../request/fields.js';
import type { Gateway } from '../http/gateway.js';
import type { ServedModel } from '../http/served-model.js';


/** Throws `model_not_found` for a name that is not served: never another model instead. */
export function checkModel(served: ServedModel, name: string | undefined): void {
  if (name === undefined || name === '' || served.unlisted?.includes(name)) return;
  // As on the command line: Q4_K_M and q4_k_m are the same.
  if ([served.id, ...served.aliases, 'default'].some((known) => known.toLowerCase() === name.toLowerCase())) return;
  const names = [served.id, ...served.aliases, 'default'].map((known) => JSON.stringify(known)).join(', ');
  throw new RecuaError('model_not_found', `The model ${describe(name)} does not exist here. This server has ${names}.`, { param: 'model' });
}

export function modelRoutes(gateway: Gateway): { list: RequestHandler; get: RequestHandler } {
  const entry = modelEntry(gateway);
  return {
    list: (_req: Request, res: Response) => {
      res.json({ object: 'list', data: [entry()] });
    },
    get: (req: Request, res: Response) => {
      // A wildcard gives the decoded segments: owner/repo and owner%2Frepo are the same name.
      const id = req.params['id'] as unknown as string[];
      checkModel(gateway.served, id.join('/'));
      res.json(entry());
    },
  };
}

function modelEntry({ engine, served }: Gateway): () => object {
  // Kept over a restart of the engine: the same file comes back.
  let known: ModelDescription | undefined;
  return () => {
    if (engine.state.state === 'ready') known = engine.state.model;
    return {
      id: served.id,
      object: 'model',
      created: served.createdSeconds,
      owned_by: 'recua',
      aliases: served.aliases,
      status: { value: stateWord(engine) },
      ...(known === undefined ? {} : details(known)),
    };
  };
}

function stateWord(engine: Engine): string {
  const { state } = engine.state;
  return state === 'ready' ? 'loaded' : state === 'restarting' ? 'loading' : state;
}

function details(model: ModelDescription): object {
  return {
    // Clients look for the context under different names.
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
      n_gpu_layers: model.offload.layers,
      n_layers: model.offload.totalLayers,
    },
  };
}

/** The last two are what the template's own text speaks of; no list of model names is kept. */
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
