// A configuration for HAProxy 2.6 and newer: conversations by consistent hash, bounded by load.
// test/service/cluster.test.ts runs `haproxy -c` and real replicas on it.
import { askingPaths, keptPaths, sessionFields, sessionHeaders } from './conversation.js';
import { addressText, certifiedName, isName, type Cluster, type Replica, type Written } from './replicas.js';

/** Percent of the average load; above it a conversation goes to the next server. */
const mostLoad = 130;
/** HAProxy reads this much of a body and can resend no more. */
const bodyBytes = 1_048_576;

/** Where a conversation's beginning is, dialect by dialect. */
const systems = ['system', 'system[0].text', 'instructions'];
const textAt = (list: string, at: number): string[] => [`${list}[${at}].content`, `${list}[${at}].content[0].text`];
const ones = [...textAt('messages', 0), ...textAt('input', 0), 'input', 'prompt'];
const twos = [...textAt('messages', 1), ...textAt('input', 1)];

export function haproxyConfig({ replicas, listen, authorities, tlsName, parallel }: Cluster): Written {
  const hasNames = replicas.some(({ host }) => isName(host));
  const byClient = (retryOn: string): string => `  balance hash var(txn.client)
  hash-type consistent sdbm avalanche
  retries ${retriesOf(replicas)}
  option redispatch 1
  retry-on ${retryOn}
  default-server ${serverWords(hasNames).join(' ')}
${replicas.map((one) => server(one, { authorities, tlsName, more: ['track', `replicas/${one.name}`] })).join('\n')}`;
  const text = `# Written by recua cluster config haproxy for HAProxy 2.6 or newer.
# Check: haproxy -c -f FILE    Reload without a lost request: systemctl reload haproxy

global
  maxconn 4000
  # HAProxy reads this much of a body to find its conversation, and can resend it elsewhere.
  tune.bufsize ${bodyBytes}

defaults
  mode http
  timeout connect 5s
  # Until a request's headers and body are complete.
  timeout http-request 60s
  timeout http-keep-alive 60s
  # Answers may be silent while they wait in a queue and during prefill.
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
  timeout queue 5m
  # Replicas must see that clients are not on their machine.
  option forwardfor
  # Send each piece of an answer immediately.
  option http-no-delay
  # A client that leaves ends its request, also one that waits for its first byte.
  option abortonclose
${hasNames ? `
resolvers system
  parse-resolv-conf
  hold valid 10s
` : ''}
frontend recua
  bind ${addressText(listen.host || '0.0.0.0', listen.port)}${listen.host === '' ? `
  # Delete this line if the machine has no IPv6.
  bind [::]:${listen.port} v6only` : ''}
  option http-buffer-request

  # A stream sends no byte before its first piece: until then another replica can take it.
  http-request set-header x-stream-opens first-piece

  # The client: its API key, else its address.
  http-request set-var(txn.client) req.hdr(authorization)
  http-request set-var(txn.client) req.hdr(x-api-key) if !{ var(txn.client) -m found }
  http-request set-var(txn.client) req.hdr(api-key) if !{ var(txn.client) -m found }
  http-request set-var(txn.client) src if !{ var(txn.client) -m found }

  # The conversation: as the client names it, else its beginning.
  acl is_named var(txn.key) -m found
${[...sessionHeaders.map((name) => `req.hdr(${name})`), ...sessionFields.map(field)].map((from) => `  http-request set-var(txn.key) ${from} if !is_named { ${from} -m len gt 0 }`).join('\n')}
  acl has_system var(txn.system) -m found
${systems.map((from) => `  http-request set-var(txn.system) ${beginning(from)} if !is_named !has_system`).join('\n')}
  acl has_one var(txn.one) -m found
${ones.map((from) => `  http-request set-var(txn.one) ${beginning(from)} if !is_named !has_one`).join('\n')}
  # The first message is often the same in many conversations, if it is the system message.
  acl has_two var(txn.two) -m found
  acl leads ${field('messages[0].role')} -m str system developer
  acl leads ${field('input[0].role')} -m str system developer
${twos.map((from) => `  http-request set-var(txn.two) ${beginning(from)} if !is_named leads !has_two`).join('\n')}
  http-request set-var(txn.key) var(txn.one),concat(|,txn.two,|),concat(,txn.system,) if !is_named has_one
  http-request set-var(txn.key) req.body,bytes(0,1024) if !is_named

  # Requests that any replica can answer. All others use what one replica keeps: files, batches,
  # stored responses. A client always reaches the replica that has its own.
  acl asks path ${askingPaths.join(' ')}
  acl is_kept path ${keptPaths.join(' ')}
  acl says_store ${field('store')} -m found
  acl store ${field('store')} -m bool
  use_backend responses if is_kept METH_POST store
  use_backend responses if is_kept METH_POST !says_store
  # What it continues is where the client's responses are.
  acl continues ${field('previous_response_id')} -m found
  use_backend responses if is_kept METH_POST continues
  # Another request of the client may end the thinking.
  acl is_controlled ${field('reasoning_control')} -m bool
  use_backend responses if asks METH_POST is_controlled
  # A WebSocket, whose messages are not read here.
  use_backend responses if is_kept METH_GET
  use_backend replicas if asks
  use_backend reads if METH_GET
  default_backend kept

backend replicas
  # A new conversation goes by its hash, but no replica gets more than ${mostLoad / 100} times the
  # average load.
  balance hash var(txn.key)
  hash-type consistent sdbm avalanche
  hash-balance-factor ${mostLoad}
  # Later turns go to the same replica, as long as it runs fewer requests than it can at once, or
  # has at most ${mostLoad / 100} times the average load.
  stick-table type integer size 200k expire 2h
  http-request set-var(txn.conversation) var(txn.key),xxh32
  http-request set-var(txn.home) var(txn.conversation),table_server_id
${replicas.map(({ name }, index) => `  http-request set-var(txn.load) srv_conn(replicas/${name}) if { var(txn.home) -m int ${index + 1} }`).join('\n')}
  http-request set-var(txn.most) be_conn,mul(${mostLoad}),div(${100 * replicas.length})
  acl has_room var(txn.load) -m int lt ${parallel}
  acl has_room var(txn.load),sub(txn.most) -m int le 0
  stick match var(txn.conversation) if has_room
  stick store-request var(txn.conversation)
  # If a replica has not sent a single byte of an answer, another one takes the request: the
  # replica refused the connection, is stopping (503), or died.
  retries ${retriesOf(replicas)}
  option redispatch 1
  retry-on conn-failure empty-response 503
  # A replica that stops or loads is not ready. One that refuses connections is marked down at
  # once, so that retries reach live replicas.
  option httpchk GET /health/ready
  http-check expect status 200
  default-server ${serverWords(hasNames).join(' ')}
${replicas.map((one) => server(one, { authorities, tlsName, more: ['check', 'inter', '1s', 'fall', '2', 'rise', '1', 'observe', 'layer4', 'error-limit', '2', 'on-error', 'mark-down'] })).join('\n')}

# Stored responses: a client reaches the replica that made its own.
backend responses
${byClient('conn-failure empty-response 503')}

# Requests that only read: a replica that just stops may have closed their connection.
backend reads
${byClient('conn-failure empty-response 503')}

# Everything else. A request that a replica may have begun is not resent.
backend kept
${byClient('conn-failure 503')}
`;
  return {
    text,
    notes: [
      `HAProxy reads the first ${bodyBytes / 2 ** 20} MiB of a body: clients with longer bodies should name their conversation in the header ${sessionHeaders[0]}.`,
      'Files, batches and stored responses stay on the replica that made them: a client reaches its own as long as that replica runs.',
    ],
  };
}

const field = (name: string): string => `req.body,json_query('$.${name}')`;

/** The first kilobyte of a text. */
const beginning = (name: string): string => `${field(name)},bytes(0,1024)`;

/** Enough to hit each dead replica as often as it takes to mark it down. */
const retriesOf = (replicas: readonly Replica[]): number => Math.min(20, 3 * replicas.length);

/** A weight of 100 gives each server enough points on the hash ring for an even share. */
const serverWords = (hasNames: boolean): string[] => ['weight', '100', ...(hasNames ? ['resolvers', 'system', 'init-addr', 'last,libc,none'] : [])];

function server(
  replica: Replica,
  { authorities, tlsName, more }: { authorities: string; tlsName: string; more: readonly string[] },
): string {
  const { name, host, port, secure } = replica;
  return [
    '  server',
    name,
    addressText(host, port),
    ...(secure ? tlsWords(certifiedName(replica, tlsName), authorities, more[0] === 'check') : []),
    ...more,
  ].join(' ');
}

const tlsWords = (named: string, authorities: string, isChecked: boolean): string[] =>
  ['ssl', 'verify', 'required', 'verifyhost', named, 'ca-file', quoted(authorities), 'sni', `str(${named})`, ...(isChecked ? ['check-sni', named] : [])];

const quoted = (path: string): string => (/^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`);
