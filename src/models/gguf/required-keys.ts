// Metadata keys without which llama.cpp v0.5.0 cannot load a model, by architecture: those that its
// load_hparams() and each architecture's load_arch_hparams() require in every case.
// test/models/gguf/required-keys.test.ts compares this table with the source.
import type { ModelFile } from './model-file.js';

/**
 * Architectures up to a colon, then their keys without the architecture prefix; a slash marks a key
 * that has no such prefix.
 */
const table = `
kimi-k3:
  activation.situ_beta activation.situ_linear_beta attention.key_length_mla
  attention.kv_lora_rank attention.layer_norm_rms_epsilon attention.value_length_mla
  attn_res.block_size expert_feed_forward_length expert_gating_func expert_shared_count
  kda.head_dim ssm.conv_kernel
graniteswitch:
  adapters.count adapters.lora_rank adapters.router_gain attention.layer_norm_rms_epsilon
  expert_shared_feed_forward_length logit_scale
dbrx:
  attention.clamp_kqv attention.layer_norm_epsilon
deepseek4:
  attention.compress_rope_freq_base attention.indexer.head_count
  attention.indexer.key_length attention.indexer.top_k attention.layer_norm_rms_epsilon
  attention.output_group_count attention.output_lora_rank attention.q_lora_rank
  attention.sliding_window expert_feed_forward_length expert_gating_func
  expert_shared_count expert_weights_norm expert_weights_scale hash_layer_count
  hyper_connection.count hyper_connection.epsilon hyper_connection.sinkhorn_iterations
  swiglu_clamp_exp
rwkv7 arwkv7:
  attention.decay_lora_rank attention.iclr_lora_rank
  attention.value_residual_mix_lora_rank wkv.head_size
wavtokenizer-dec:
  attention.group_norm_epsilon attention.group_norm_groups attention.layer_norm_epsilon
minimax-m3:
  attention.indexer.block_size attention.indexer.head_count attention.indexer.key_length
  attention.indexer.local_blocks attention.indexer.top_k attention.layer_norm_rms_epsilon
  expert_feed_forward_length expert_gating_func expert_shared_count
dots3note:
  attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k
  attention.key_length_mla attention.key_length_mla_swa attention.kv_lora_rank
  attention.kv_lora_rank_swa attention.layer_norm_rms_epsilon attention.q_lora_rank
  attention.sliding_window attention.value_length_mla attention.value_length_mla_swa
  expert_feed_forward_length expert_gating_func expert_shared_count
  leading_dense_block_count rope.freq_base_swa
deepseek32:
  attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k
  attention.kv_lora_rank attention.layer_norm_rms_epsilon attention.q_lora_rank
  expert_feed_forward_length expert_gating_func expert_shared_count
glm-dsa:
  attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k
  attention.kv_lora_rank attention.layer_norm_rms_epsilon attention.q_lora_rank
  expert_feed_forward_length expert_shared_count
qwen4exp:
  attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k
  attention.layer_norm_rms_epsilon hyper_connection.count hyper_connection.low_rank
  rope.dimension_sections ssm.conv_kernel ssm.group_count ssm.inner_size ssm.state_size
  ssm.time_step_rank
hy_v4:
  attention.key_length_mla attention.kv_lora_rank attention.layer_norm_rms_epsilon
  attention.q_lora_rank attention.value_length_mla expert_feed_forward_length
  expert_shared_count hyper_connection.count hyper_connection.epsilon
  hyper_connection.magnitude
bailingmoe3:
  attention.key_length_mla attention.kv_lora_rank attention.layer_norm_rms_epsilon
  attention.value_length_mla expert_feed_forward_length expert_gating_func
  expert_shared_count kda.gate_lower_bound kda.head_dim leading_dense_block_count
  ssm.conv_kernel
kimi-linear:
  attention.key_length_mla attention.kv_lora_rank attention.layer_norm_rms_epsilon
  attention.value_length_mla expert_feed_forward_length expert_gating_func
  expert_shared_count kda.head_dim ssm.conv_kernel
gemma4-assistant:
  attention.key_length_swa attention.layer_norm_rms_epsilon attention.sliding_window
  attention.value_length_swa
gemma4:
  attention.key_length_swa attention.layer_norm_rms_epsilon attention.sliding_window
  attention.value_length_swa embedding_length_per_layer_input
plm:
  attention.kv_lora_rank attention.layer_norm_rms_epsilon
minicpm3:
  attention.kv_lora_rank attention.layer_norm_rms_epsilon attention.q_lora_rank
deepseek2 mistral4:
  attention.kv_lora_rank attention.layer_norm_rms_epsilon expert_feed_forward_length
  expert_shared_count
falcon starcoder bert jina-bert-v2 jina-bert-v3 nomic-bert modern-bert bloom mpt stablelm
pockettts phi2 gpt2 codeshell orion starcoder2 command-r olmo jais jais2 nemotron:
  attention.layer_norm_epsilon
cohere2:
  attention.layer_norm_epsilon attention.sliding_window logit_scale
nomic-bert-moe:
  attention.layer_norm_epsilon moe_every_n_layers
nemotron_h nemotron_h_moe:
  attention.layer_norm_epsilon ssm.conv_kernel ssm.group_count ssm.inner_size
  ssm.state_size ssm.time_step_rank
gptneox:
  attention.layer_norm_epsilon use_parallel_residual
llama llama-embed maincoder deci baichuan grok refact neo-bert eurobert nanbeige qwen
qwen2 dream llada llada-moe rnd1 qwen2moe qwen3 qwen3moe phi3 phimoe plamo plamo3
internlm2 gemma gemma2 gemma3 xverse olmo2 olmoe openelm arctic chatglm glm4 bitnet exaone
exaone4 chameleon seed_oss arcee ernie4_5 ernie4_5-moe paddleocr hunyuan_vl hunyuan-dense
smollm3 smallthinker cogvlm pangu-embedded mistral3 dflash:
  attention.layer_norm_rms_epsilon
t5 t5encoder:
  attention.layer_norm_rms_epsilon attention.relative_buckets_count
granitehybrid:
  attention.layer_norm_rms_epsilon attention.scale embedding_scale
  expert_shared_feed_forward_length logit_scale residual_scale ssm.conv_kernel
  ssm.group_count ssm.inner_size ssm.state_size ssm.time_step_rank
gemma3n gemma-embedding spark2_5:
  attention.layer_norm_rms_epsilon attention.sliding_window
gpt-oss mimo2 step35:
  attention.layer_norm_rms_epsilon attention.sliding_window expert_feed_forward_length
exaone-moe:
  attention.layer_norm_rms_epsilon attention.sliding_window expert_feed_forward_length
  expert_gating_func
maple:
  attention.layer_norm_rms_epsilon attention.sliding_window expert_feed_forward_length
  swiglu_clamp_exp
granite_swa:
  attention.layer_norm_rms_epsilon attention.sliding_window
  expert_shared_feed_forward_length logit_scale
muse-glimmer:
  attention.layer_norm_rms_epsilon attention.sliding_window logit_scale
minicpm:
  attention.layer_norm_rms_epsilon embedding_scale logit_scale residual_scale
mellum hunyuan-moe hy_v3 minimax-m2:
  attention.layer_norm_rms_epsilon expert_feed_forward_length
bailingmoe2:
  attention.layer_norm_rms_epsilon expert_feed_forward_length expert_gating_func
  expert_shared_count
lfm2moe:
  attention.layer_norm_rms_epsilon expert_feed_forward_length expert_gating_func
  shortconv.l_cache
grovemoe:
  attention.layer_norm_rms_epsilon expert_feed_forward_length expert_group_scale
  experts_per_group
deepseek deepseek2-ocr glm4moe bailingmoe dots1 afmoe:
  attention.layer_norm_rms_epsilon expert_feed_forward_length expert_shared_count
llama4:
  attention.layer_norm_rms_epsilon expert_feed_forward_length interleave_moe_layer_step
laguna:
  attention.layer_norm_rms_epsilon expert_feed_forward_length leading_dense_block_count
granite granitemoe:
  attention.layer_norm_rms_epsilon expert_shared_feed_forward_length logit_scale
hrm_text:
  attention.layer_norm_rms_epsilon hrm.h_cycles hrm.l_cycles hrm.layers_per_stack
talkie:
  attention.layer_norm_rms_epsilon logit_scale
minimax-01:
  attention.layer_norm_rms_epsilon residual_scale
qwen3vl qwen3vlmoe qwen3tts:
  attention.layer_norm_rms_epsilon rope.dimension_sections
qwen35 qwen35moe:
  attention.layer_norm_rms_epsilon rope.dimension_sections ssm.conv_kernel ssm.group_count
  ssm.inner_size ssm.state_size ssm.time_step_rank
lfm2:
  attention.layer_norm_rms_epsilon shortconv.l_cache
plamo2 mamba2 falcon-h1 qwen3next:
  attention.layer_norm_rms_epsilon ssm.conv_kernel ssm.group_count ssm.inner_size
  ssm.state_size ssm.time_step_rank
mamba jamba:
  attention.layer_norm_rms_epsilon ssm.conv_kernel ssm.inner_size ssm.state_size
  ssm.time_step_rank
eagle3:
  attention.layer_norm_rms_epsilon target_hidden_size
apertus:
  attention.layer_norm_rms_epsilon /xielu.alpha_n /xielu.alpha_p
  /xielu.beta /xielu.eps
cohere2moe:
  attention.sliding_window expert_feed_forward_length leading_dense_block_count
  logit_scale
qwen2vl:
  rope.dimension_sections
rwkv6 rwkv6qwen2:
  time_decay_extra_dim time_mix_extra_dim wkv.head_size
`;

/** Keys that every architecture needs. */
const common = ['context_length', 'embedding_length', 'block_count'];
/** Keys without which tensors of these names do not have the shape that llama.cpp expects. */
const ofTensors = [['blk.0.attn_q.weight', 'attention.head_count'], ['blk.0.ffn_up.weight', 'feed_forward_length']] as const;

const ofArchitecture: ReadonlyMap<string, readonly string[]> = new Map(
  [...table.matchAll(/^(\S[^:]*):((?:\n  .*)+)/gm)].flatMap(([, names, keys]) => {
    const list = keys!.trim().split(/\s+/);
    return names!.split(/\s+/).map((name): [string, readonly string[]] => [name, list]);
  }),
);

/**
 * Keys that an architecture needs besides the common ones; undefined for an unknown architecture.
 */
export function requiredKeys(architecture: string): readonly string[] | undefined {
  return ofArchitecture.get(architecture);
}

/**
 * The full names of keys that llama.cpp will miss; none for files that are not models themselves.
 */
export function missingKeys({ architecture, parts: [first], tensorCount, parts }: ModelFile): string[] {
  const { metadata } = first;
  const kind = metadata.get('general.type') ?? 'model';
  if (architecture === '') return tensorCount > 0 && kind === 'model' ? ['general.architecture'] : [];
  const own = requiredKeys(architecture);
  if (own === undefined || tensorCount === 0 || kind !== 'model') return [];
  const tensors = new Set(parts.flatMap((part) => part.tensors.map((tensor) => tensor.name)));
  const implied = ofTensors.flatMap(([tensor, key]) => (tensors.has(tensor) ? [key] : []));
  return [...new Set([...common, ...own, ...implied])].map((key) => (key.startsWith('/') ? key.slice(1) : `${architecture}.${key}`)).filter((key) => !metadata.has(key));
}
