// The models in Ollama's format: GET /api/tags, /api/ps, /api/version, POST /api/show. The lists
// only have the name and size of a model that was not loaded since the start; show reads its file.
import { createHash } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import type { PoolModel } from '../../engine/pool-api.js';
import type { ModelDescription } from '../../engine/protocol.js';
import { rounds } from '../body/rounds.js';
import { wrongType, type Fields } from '../../request/fields.js';
import { readAll, readModelName } from '../exchange/admission.js';
import type { Gateway } from '../http/gateway.js';
import type { ShelfModel } from '../http/shelf.js';

/** The Ollama version whose API this is. Clients check it before they use newer features. */
const apiVersion = '0.12.6';

export function modelRoutes({ poolFor, shelf }: Gateway): Record<'tags' | 'ps' | 'show' | 'version', RequestHandler> {
  return {
    tags: async (_req: Request, res: Response) => {
      const models = await poolFor(res).list();
      // As in openai/models.
      await rounds.next();
      res.json({ models: models.map(entry) });
    },
    ps: async (_req: Request, res: Response) => {
      const loaded = (await poolFor(res).list()).filter(({ state }) => state.state === 'loaded' || state.state === 'unloading');
      res.json({ models: loaded.map((model) => ({ ...entry(model), ...residence(model) })) });
    },
    show: async (req: Request, res: Response) => {
      const { asked, told } = readAll(req, readShown);
      const model = await poolFor(res).find(asked);
      // If the file cannot be read, show what was known when the model was loaded.
      res.json({ ...shown(model, await shelf?.describe(model.id).catch(() => undefined)), ...told });
    },
    version: (_req: Request, res: Response) => void res.json({ version: apiVersion }),
  };
}

/** Returns the name of the model to show. */
export function readShown(body: Fields): string {
  body.allow('verbose');
  const name = readModelName(body) ?? readModelName(body, 'name');
  if (!name) throw wrongType('model', 'the name of a model', name);
  return name;
}

function entry(model: PoolModel): object {
  const { id, createdSeconds, known, fileBytes } = model;
  return {
    name: id,
    model: id,
    modified_at: new Date(createdSeconds * 1_000).toISOString(),
    // The same before and after a load.
    size: fileBytes || (known?.sizeBytes ?? 0),
    // A hash of the name and the file's time, since hashing gigabytes is too slow for a list.
    digest: createHash('sha256').update(`${id} ${createdSeconds}`).digest('hex'),
    details: details(known),
  };
}

function details(known: Pick<ModelDescription, 'architecture' | 'parameters' | 'fileType'> | undefined): object {
  const family = known?.architecture ?? '';
  return {
    parent_model: '', format: 'gguf', family, families: family === '' ? [] : [family],
    parameter_size: known ? rounded(known.parameters) : '', quantization_level: known?.fileType ?? '',
  };
}

/** Such as 260K, 135M or 1.2B. */
function rounded(parameters: number): string {
  const [amount, unit] = parameters >= 1e9 ? [parameters / 1e9, 'B'] : parameters >= 1e6 ? [parameters / 1e6, 'M'] : [parameters / 1e3, 'K'];
  return `${amount.toFixed(amount >= 100 ? 0 : 1)}${unit}`;
}

function residence({ expiresMs, known, sizeBytes, state }: PoolModel): object {
  const { layers = 0, totalLayers = 0 } = known?.offload ?? {};
  return {
    size: sizeBytes,
    size_vram: totalLayers === 0 ? 0 : Math.round(sizeBytes * layers / totalLayers),
    context_length: known?.contextSize ?? 0,
    // Ollama expresses "forever" as a time far away. One that is being unloaded waits for answers.
    expires_at: state.state === 'unloading' ? new Date().toISOString() : expiresMs === undefined ? '2318-01-01T00:00:00.000Z' : new Date(expiresMs).toISOString(),
  };
}

function shown(model: PoolModel, file: ShelfModel | undefined): object {
  const { known, createdSeconds } = model;
  const template = known?.chatTemplate ?? textOf(file, 'tokenizer.chat_template');
  const parameters = known ? `num_ctx ${known.contextSize}` : '';
  const license = textOf(file, 'general.license');
  return {
    modelfile: `# Modelfiles have no meaning here.\nFROM ${model.id}\n`,
    parameters,
    template,
    ...(license === '' ? {} : { license }),
    details:
      known || !file
        ? details(known)
        : details({ architecture: file.architecture, parameters: file.parameters, fileType: file.quantization }),
    modified_at: new Date(createdSeconds * 1_000).toISOString(),
    model_info: { ...file?.metadata, ...infoOf(known), ...(file ? { 'general.parameter_count': file.parameters } : {}) },
    capabilities: capabilitiesOf(known ?? { canGenerate: file !== undefined, canEmbed: file !== undefined }, template),
  };
}

function textOf(file: ShelfModel | undefined, key: string): string {
  const value = file?.metadata[key];
  return typeof value === 'string' ? value : '';
}

function infoOf(known: ModelDescription | undefined): object {
  if (!known) return {};
  const { architecture, contextTrain, embeddingSize, layers, parameters } = known;
  return {
    'general.architecture': architecture,
    'general.parameter_count': parameters,
    [`${architecture}.context_length`]: contextTrain,
    [`${architecture}.embedding_length`]: embeddingSize,
    [`${architecture}.block_count`]: layers,
  };
}

function capabilitiesOf({ canGenerate, canEmbed }: Pick<ModelDescription, 'canGenerate' | 'canEmbed'>, template: string): string[] {
  return [
    ...(canGenerate ? ['completion'] : []),
    ...(canGenerate && /\btools\b/.test(template) ? ['tools'] : []),
    ...(canGenerate && /enable_thinking|reasoning_content|<think>/.test(template) ? ['thinking'] : []),
    ...(canEmbed ? ['embedding'] : []),
  ];
}
