// GET /props and /slots: llama-server's description of a model and its running requests. Mounted by
// dialect. Both need a loaded model and do not load one.
import type { Request, RequestHandler, Response } from 'express';
import type { PoolModel } from '../../engine/pool-api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { Fields } from '../../request/fields.js';
import { readSampling } from '../../request/sampling-fields.js';
import type { Gateway } from '../http/gateway.js';
import { searchOf } from '../http/query.js';
import { defaultSettings } from './settings.js';

type Found = PoolModel & { known: ModelDescription };

export function props(gateway: Gateway): RequestHandler {
  return async (req: Request, res: Response) => {
    const { id, known, state } = await find(gateway, req, res);
    const defaults = gateway.defaultsOf(id);
    const sampling = readSampling(Fields.of({}), { ...defaults, vocabSize: known.vocabSize, contextSize: known.contextSize });
    res.json({
      default_generation_settings: { params: defaultSettings(sampling, defaults.maxTokens), n_ctx: known.contextSize },
      total_slots: known.parallel,
      model_alias: id,
      model_ftype: known.fileType,
      // The real path is not revealed.
      model_path: id,
      modalities: { vision: false, video: false, audio: false },
      endpoint_slots: true,
      endpoint_props: false,
      endpoint_metrics: true,
      ui: false,
      chat_template: known.chatTemplate,
      bos_token: known.bosText,
      eos_token: known.eosText,
      build_info: `llama.cpp-${known.llamaCpp}`,
      is_sleeping: state.state === 'sleeping',
    });
  };
}

export function slots(gateway: Gateway): RequestHandler {
  return async (req: Request, res: Response) => {
    const { known, activity } = await find(gateway, req, res);
    const busy = Math.min(activity.running, known.parallel);
    if (busy === known.parallel && searchOf(req).has('fail_on_no_slot')) throw new RecuaError('queue_full', `All ${known.parallel} slots are busy; try again in a moment.`);
    res.json(
      Array.from({ length: known.parallel }, (_, id) => ({ id, n_ctx: known.contextSize, speculative: false, is_processing: id < busy })),
    );
  };
}

/** Refuses a route of llama-server that has no counterpart here. */
export function refuseRoute(what: string): RequestHandler {
  return () => {
    throw new RecuaError('not_implemented', what);
  };
}

async function find({ poolFor }: Gateway, req: Request, res: Response): Promise<Found> {
  const model = await poolFor(res).find(searchOf(req).get('model') ?? undefined);
  const { id, known, state } = model;
  if (known) return model as Found;
  if (state.state === 'failed') throw RecuaError.fromPlain(state.error);
  throw new RecuaError('model_loading', state.state === 'loading' ? `The model ${id} is still loading.` : `The model ${id} is not loaded; load it with POST /models/load, or send it a request.`);
}
