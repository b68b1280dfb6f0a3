// `recua cluster config`: a configuration for a balancer in front of several servers. The balancer
// checks it, if it is installed.
import { readFile } from 'node:fs/promises';
import { RecuaError } from '../../../errors.js';
import { checkDeployed, kubernetesConfig, readCount } from '../../../cluster/kubernetes.js';
import { readListen, readReplicas, type Cluster, type Written } from '../../../cluster/replicas.js';
import { command } from '../../command.js';
import type { Arguments } from '../../flags/arguments.js';
import { integer, misuse, on, perCall, text } from '../../flags/flags.js';
import { print, say } from '../../terminal/output.js';
import { check, configs, type Balancer } from './check.js';

const kinds = ['haproxy', 'nginx', 'kubernetes'] as const;
type Kind = (typeof kinds)[number];

const configFlags = {
  replicas: perCall(text(['--replicas'], 'url,url,…', 'Balance between the servers at these addresses, such as http://10.0.0.1:8080; for kubernetes, start with this many')),
  listen: perCall(text(['--listen'], '[host]:port', 'Let the balancer listen here; :8000 means every address of the machine, 0.0.0.0:8000 every IPv4 address', '127.0.0.1:8000')),
  authorities: perCall(text(['--ca-file'], 'path', 'Trust the authorities in this file, on the balancer\'s machine, for the certificates of https replicas', '/etc/ssl/certs/ca-certificates.crt')),
  tlsName: perCall(text(['--tls-name'], 'name', 'Expect this name in the certificates of all https replicas; by default the host of their address')),
  parallel: perCall(integer(['--parallel'], 'n', 'Expect each server to run this many requests at once, its own --parallel', { fallback: 4, min: 1, max: 256 })),
  name: perCall(text(['--name'], 'name', 'kubernetes: give the objects this name', 'recua')),
  image: perCall(text(['--image'], 'image', 'kubernetes: run this container image, which contains recua')),
  model: perCall(text(['--model', '-m'], 'model', 'kubernetes: serve this model on each replica: owner/repo:quantization, builtin, or a path in the image')),
  secret: perCall(text(['--api-key-secret'], 'name', 'kubernetes: require the api-key of this Secret from clients')),
  out: perCall(text(['--out', '-o'], 'path', 'Write the configuration to this file instead of printing it')),
  force: perCall(on(['--force', '-f'], 'Replace the --out file if it has different content')),
} as const;

type ConfigArguments = Arguments<typeof configFlags>;

/** Flags that have no effect for a kind. Giving one is an error. */
const meaningless: Readonly<Record<Kind, readonly (keyof typeof configFlags)[]>> = {
  haproxy: ['name', 'image', 'model', 'secret'],
  nginx: ['name', 'image', 'model', 'secret'],
  kubernetes: ['listen', 'authorities', 'tlsName', 'parallel'],
};

const config = command({
  name: 'config',
  aliases: [],
  operands: 'haproxy|nginx|kubernetes',
  summary: 'Write a balancer\'s configuration that keeps each conversation on one server',
  details: 'HAProxy recognizes a conversation by a session header, prompt_cache_key, metadata.user_id or user, else by its beginning, so that its next turn finds the KV cache of the last one. '
    + 'nginx reads no JSON, so it knows only the headers. On Kubernetes, the endpoint picker of an inference gateway chooses the server. '
    + 'HAProxy and nginx send a request for an answer to another server if one fails before it begins to answer, and give no server more than its share while others are free. '
    + 'They never cut a long stream, and pass API keys on. HAProxy and Kubernetes check /health/ready; nginx does not. '
    + 'If haproxy or nginx is installed, haproxy -c or nginx -t checks the configuration before it is written; '
    + 'warnings name what only the balancer\'s machine has, which was not checked: addresses to listen on, names, --ca-file.',
  examples: [
    ['recua cluster config haproxy --replicas http://10.0.0.1:8080,http://10.0.0.2:8080 --listen :8000 --out haproxy.cfg', 'Put two servers behind HAProxy'],
    ['recua cluster config nginx --replicas http://10.0.0.1:8080,http://10.0.0.2:8080 --out recua.conf', 'Write a file for nginx\'s conf.d folder'],
    ['recua cluster config kubernetes --replicas 4 --image registry.example.com/recua:1.0 --model owner/repo:Q4_K_M', 'Print objects for kubectl apply'],
  ],
  flags: configFlags,
  async run({ values, operands, given }) {
    const [named, ...surplus] = operands;
    const kind = kinds.find((one) => one === named);
    if (!kind || surplus.length > 0) throw misuse(`Expected one of ${kinds.join(', ')} after recua cluster config, got ${operands.length === 0 ? 'none' : operands.join(' ')}.`);
    const strange = meaningless[kind].find((key) => given.has(key));
    if (strange) throw misuse(`${configFlags[strange].names[0]} has no effect for ${kind}. Leave it out.`);
    const { text: written, notes } = kind === 'kubernetes' ? kubernetesObjects(values) : await balancerConfig(kind, values);
    if (values.out === '') await print(written);
    else await keep(values.out, written, values.force);
    for (const note of notes) say(`Note: ${note}`);
    return 0;
  },
});

type ConfigValues = ConfigArguments['values'];

function kubernetesObjects({ replicas, name, image, model, secret }: ConfigValues): Written {
  const count = readCount(replicas);
  checkDeployed({ name, image, model, secret });
  const written = kubernetesConfig({ name, replicas: count, image, model, secret });
  say('Not checked. To have a cluster check it: kubectl apply --dry-run=server -f FILE');
  return written;
}

async function balancerConfig(kind: Balancer, { replicas, listen, authorities, tlsName, parallel }: ConfigValues): Promise<Written> {
  const cluster = {
    replicas: readReplicas(replicas),
    listen: readListen(listen),
    authorities: readAuthorities(authorities),
    tlsName: readTlsName(tlsName),
    parallel,
  };
  const written = configs[kind](cluster);
  await tellCheck(kind, cluster);
  return written;
}

function readTlsName(name: string): string {
  if (name !== '' && !/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/i.test(name)) throw misuse(`Expected a host name for --tls-name, got ${JSON.stringify(name)}.`);
  return name;
}

/** The file is not read here: it is on the balancer's machine. */
function readAuthorities(path: string): string {
  if (path === '' || /[\u0000-\u001f\u007f]/.test(path)) throw misuse(`Expected a file of certificates for --ca-file, got ${JSON.stringify(path)}.`);
  return path;
}

/** Throws `balancer_refused`. */
async function tellCheck(kind: Balancer, cluster: Cluster): Promise<void> {
  const program = kind === 'haproxy' ? 'haproxy -c' : 'nginx -t';
  const result = await check(kind, cluster);
  if (result.outcome === 'good') {
    say(`${program} accepts this configuration.`);
    for (const lack of result.lacks) say(`Warning: this machine cannot ${lack}. The balancer's machine must, or ${kind} does not start.`);
  } else if (result.outcome === 'missing') {
    say(`Not checked: ${kind} is not installed here. Run ${program === 'nginx -t' ? program : `${program} -f FILE`} on a machine that has it.`);
  } else throw new RecuaError('balancer_refused', `${program} rejects this configuration, so nothing was written:\n${result.said}`);
}

async function keep(path: string, written: string, force: boolean): Promise<void> {
  const before = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw new RecuaError('file_unreadable', `${path} cannot be read: ${cause.message}.`, { cause });
  });
  if (before !== undefined && before !== written && !force) throw new RecuaError('file_unreadable', `${path} already exists with different content. --force replaces it.`);
  const { default: writeFileAtomic } = await import('write-file-atomic');
  try {
    await writeFileAtomic(path, written);
  } catch (cause) {
    throw new RecuaError('file_unreadable', `${path} cannot be written: ${(cause as Error).message}.`, { cause });
  }
  say(`Wrote ${path}.`);
}

export const cluster = command({
  name: 'cluster',
  aliases: [],
  operands: '<command>',
  summary: 'Put several servers behind a balancer: config',
  details: 'docs/deployment.md explains how servers share work.',
  subcommands: [config],
  flags: {},
  run: () => Promise.reject(misuse('Expected a command: recua cluster config.')),
});
