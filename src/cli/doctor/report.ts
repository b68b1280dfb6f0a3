// The doctor's report, as text for people and as JSON for programs.
import { basename } from 'node:path';
import type { NativeBackend } from '../../addon/addon.js';
import { sizeText } from '../../models/byte-size.js';
import { machineText } from '../../system/machine-text.js';
import type { Survey } from '../../engine/gateway/survey.js';
import { sameVersion } from '../../system/installation.js';
import { deviceObjects, freeBytes } from '../devices.js';
import { plain } from '../terminal/wording.js';
import type { Examination } from './examination.js';
import type { ProcessorFacts } from './processor.js';
import type { Graphics } from './graphics.js';
import { toJson } from '../terminal/output.js';

const labelWidth = 14;

export function asText(result: Examination): string {
  const { installation, node, survey, processor, graphics, advice, store, config, server, sandbox, findings } = result;
  const lines = [
    row('Recua', `${installation.version} in ${installation.root}`),
    row('Node', `${node}${survey ? `, ${machineText(survey.machine)}` : ''}`),
    row('llama.cpp', llamaCppOf(result) ?? `${installation.llamaCpp} (not loaded)`),
    row('Addon', survey?.addon ? `${survey.addon.path} (${sourceText(survey.addon)})` : 'none that loads'),
    ...(survey ? backendRows(survey) : []),
    ...(processor ? [row('Processor', processorText(processor))] : []),
    ...(survey?.devices ?? []).map((device) => (
      row('Device', `${device.name}: ${plain(device.description)}${device.memoryTotalBytes > 0 ? `, ${sizeText(device.memoryTotalBytes)}, ${sizeText(freeBytes(device))} free` : ''}`))),
    row('Graphics', graphicsText(graphics)),
    ...(advice ? [row('', `To compute on it: ${advice.command}`)] : []),
    row('Model store', `${plain(store.path)}${store.exists ? '' : ' (not made yet)'}, ${store.writable ? 'writable' : 'not writable'}${store.freeBytes === undefined ? '' : `, ${sizeText(store.freeBytes)} free`}`),
    row('Config file', `${plain(config.path)}: ${config.error !== '' ? 'not in order' : config.exists ? 'in order' : 'there is none, so the defaults apply'}`),
    row('recua serve', server ? `${server.state === 'stopped' ? 'not running' : server.state}${server.record?.url && server.alive ? ` at ${server.record.url}` : ''}` : 'unknown'),
    row('Sandbox', sandboxText(sandbox)),
    '',
    ...verdict(findings),
  ];
  return `${lines.join('\n')}\n`;
}

/** The name that `recua version` prints, unless the addon is built from another llama.cpp. */
function llamaCppOf({ installation, survey }: Pick<Examination, 'installation' | 'survey'>): string | undefined {
  const own = survey?.addon?.llamaCpp;
  return own !== undefined && sameVersion(own, installation.llamaCpp) ? installation.llamaCpp : own;
}

function row(label: string, text: string): string {
  return `${label.padEnd(labelWidth)} ${text}`;
}

function sandboxText(sandbox: string): string {
  if (sandbox === '') return 'not known without the addon';
  if (sandbox === 'none') return 'none on this system: engine processes may do what you may';
  const parts = sandbox.split(',').map((part) => part.replace(/^landlock:(\d)$/, 'Landlock $1'));
  return `works (${parts.join(' and ')}), for engine processes without a GPU`;
}

function processorText({ library, families, ms, refused, off }: ProcessorFacts): string {
  if (off) return 'not checked: RECUA_CPU_CHECK=off';
  if (library === '') return 'no CPU library could be checked, see below';
  const left = refused.length === 0 ? '' : `; ${refused.length} not used, see below`;
  return `${basename(library)} passed its test (${families} families of kernels in ${ms} ms)${left}`;
}

function sourceText({ source, linked }: NonNullable<Survey['addon']>): string {
  const from = { RECUA_ADDON: 'named by RECUA_ADDON', build: 'built here', package: 'from its package' }[source] ?? source;
  return linked ? `${from}, backends compiled in` : from;
}

function backendRows({ backends, optional }: Survey): string[] {
  const used = backends.filter(({ name }) => name !== '');
  return [
    ...used.map((one) => row('Backend', `${one.name}${one.file === '' ? '' : ` from ${one.file}`}${featureText(one)}`)),
    ...optional.filter(({ loaded }) => !loaded).map(({ backend, package: name }) => row('Backend', `${backend}${name === '' ? '' : ` from ${name}`}: not used, see below`)),
  ];
}

function featureText({ features }: NativeBackend): string {
  const names = Object.entries(features).map(([name, value]) => (value === '1' ? name : `${name}=${value}`));
  return names.length === 0 ? '' : `: ${names.join(' ')}`;
}

function graphicsText({ makers, nvidiaDriver, nvidiaSmi, vulkanDrivers, renderNodes }: Graphics): string {
  const shut = renderNodes.filter(({ usable }) => !usable).map(({ path }) => path);
  return [
    makers.length === 0 ? 'no GPU found' : makers.join(', '),
    nvidiaDriver === '' ? 'no NVIDIA driver' : `NVIDIA driver ${nvidiaDriver}${nvidiaSmi === '' ? ' (no nvidia-smi on the PATH)' : ''}`,
    vulkanDrivers.length === 0 ? 'no Vulkan driver' : `${vulkanDrivers.length} Vulkan driver ${vulkanDrivers.length === 1 ? 'file' : 'files'}`,
    ...(shut.length === 0 ? [] : [`${shut.join(' ')} closed to this user`]),
  ].map(plain).join('; ');
}

function verdict(findings: Examination['findings']): string[] {
  if (findings.length === 0) return ['Nothing is wrong.'];
  const fatal = findings.filter(({ level }) => level === 'fatal');
  const warnings = findings.filter(({ level }) => level === 'warning');
  const indented = (text: string) => text.split('\n').map((line, at) => (at === 0 ? `- ${line}` : `  ${line}`));
  return [
    ...(warnings.length === 0 ? [] : ['Worth knowing', ...warnings.flatMap(({ text }) => indented(text))]),
    ...(warnings.length === 0 || fatal.length === 0 ? [] : ['']),
    ...(fatal.length === 0 ? ['', 'Recua can work.'] : ['Recua cannot work until this is fixed', ...fatal.flatMap(({ text }) => indented(text))]),
  ];
}

export function asJson(result: Examination): string {
  const { installation, node, survey, processor, graphics, advice, store, config, server, sandbox, findings } = result;
  return toJson({
    ok: !findings.some(({ level }) => level === 'fatal'),
    version: installation.version,
    root: installation.root,
    node: node.replace(/^v/, ''),
    llama_cpp: llamaCppOf(result) ?? null,
    machine: survey ? { platform: survey.machine.platform, arch: survey.machine.arch, glibc: survey.machine.glibc || null } : null,
    addon: survey?.addon ? { path: survey.addon.path, source: survey.addon.source, linked: survey.addon.linked } : null,
    attempts: survey?.attempts ?? [],
    packages:
      survey?.packages.map(({ name, version, backend, folder, refusal }) => ({
        name,
        version,
        backend,
        folder,
        refusal: refusal || null,
      })) ?? [],
    backends: [
      ...(survey?.backends.map(({ name, file, features, reason }) => ({
        name: name || null,
        file: file || null,
        package: null,
        loaded: name !== '',
        features,
        reason: reason || null,
      })) ?? []),
      ...(survey?.optional
        .filter(({ loaded }) => !loaded)
        .map(({ backend, package: name, file, reason }) => ({
          name: backend,
          file,
          package: name || null,
          loaded: false,
          features: {},
          reason,
        })) ?? []),
    ],
    processor: processor
      ? {
          library: processor.library || null,
          families: processor.families,
          checked: !processor.off,
          refused: processor.refused,
        }
      : null,
    devices: survey ? deviceObjects(survey) : [],
    graphics: {
      makers: graphics.makers,
      nvidia_driver: graphics.nvidiaDriver || null,
      nvidia_smi: graphics.nvidiaSmi || null,
      vulkan_drivers: graphics.vulkanDrivers,
      render_nodes: graphics.renderNodes,
    },
    advice: advice ?? null,
    store: { path: store.path, exists: store.exists, writable: store.writable, free_bytes: store.freeBytes ?? null },
    config: { path: config.path, exists: config.exists, error: config.error || null },
    server: server ? { state: server.state, url: server.record?.url || null } : null,
    sandbox: sandbox === 'none' || sandbox === '' ? null : sandbox,
    findings,
  });
}
