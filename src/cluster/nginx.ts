// A configuration for nginx's conf.d folder: conversations by consistent hash of a header.
// test/service/cluster.test.ts runs `nginx -t` and real replicas on it.
import { RecuaError } from '../errors.js';
import { askingPaths, keptPaths, sessionHeaders } from './conversation.js';
import { addressText, certifiedName, type Cluster, type Written } from './replicas.js';

export function nginxConfig({ replicas, listen, authorities, tlsName, parallel }: Cluster): Written {
  const { secure } = replicas[0]!;
  if (replicas.some((one) => one.secure !== secure)) throw new RecuaError('invalid_usage', 'nginx speaks either http or https with all replicas. Expected one scheme for all in --replicas, got both.');
  const hosts = new Set(replicas.map(({ host }) => host));
  if (secure && tlsName === '' && hosts.size > 1) {
    throw new RecuaError('invalid_usage', 'nginx checks the certificates of all replicas against one name. Expected the name that all of them carry, --tls-name models.example.com, got none.');
  }
  const certified = secure ? certifiedName(replicas[0]!, tlsName) : '';
  const variables = [...new Set(sessionHeaders.map((name) => `$http_${name.replaceAll('-', '_')}`))];
  const kept: readonly string[] = keptPaths;
  const proxyTo = (upstream: string): string => `    proxy_pass ${secure ? 'https' : 'http'}://${upstream};
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    # Replicas must see that clients are not on their machine.
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    # A stream sends no byte before its first piece: until then another replica can take it.
    proxy_set_header x-stream-opens first-piece;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $recua_connection;
    proxy_connect_timeout 5s;
    # Answers may be silent while they wait in a queue and during prefill.
    proxy_read_timeout 1h;
    proxy_send_timeout 1h;
    # Send each piece of an answer immediately. Buffer requests whole, to resend them.
    proxy_buffering off;
    proxy_request_buffering on;
    proxy_next_upstream_tries ${Math.min(10, replicas.length)};${secure ? `
    proxy_ssl_verify on;
    proxy_ssl_verify_depth 3;
    proxy_ssl_trusted_certificate ${quoted(authorities)};
    proxy_ssl_name ${certified};
    proxy_ssl_server_name on;` : ''}`;
  const servers = (more: string): string => replicas.map((one) => `  server ${addressText(one.host, one.port)}${more};`).join('\n');
  const text = `# Written by recua cluster config nginx, for the http block: /etc/nginx/conf.d/recua.conf.
# Check: nginx -t    Reload without a lost request: nginx -s reload

# The conversation: as a header names it, else the client, by its API key and address.
${variables.map((name, index) => `map ${name} ${keyName(index)} {
  default ${name};
  ''      ${index + 1 < variables.length ? keyName(index + 1) : '"$http_authorization$http_x_api_key$http_api_key$remote_addr"'};
}`).join('\n')}
map $http_upgrade $recua_connection {
  default upgrade;
  ''      '';
}

# A replica that runs as many requests as it can gets no more of these: they go to the next one.
upstream recua_replicas {
  zone recua_replicas 1m;
  hash ${keyName(0)} consistent;
${servers(` max_conns=${parallel} max_fails=1 fail_timeout=2s`)}
  keepalive 64;
}
# If all are that busy, a conversation waits where its cache is. What a replica stores is only
# there, however busy it is. None is ever counted out: a client whose requests every replica
# refuses with 503 would have nginx refuse those of all others.
upstream recua_kept {
  zone recua_kept 1m;
  hash ${keyName(0)} consistent;
${servers(' max_fails=0')}
  keepalive 64;
}

server {
  listen ${addressText(listen.host || '0.0.0.0', listen.port)};${listen.host === '' ? `
  # Delete this line if the machine has no IPv6.
  listen [::]:${listen.port};` : ''}
  server_name _;
  # Some agents send session_id.
  underscores_in_headers on;
  # Replicas have their own limit and report it in their own error format.
  client_max_body_size 0;
  client_body_buffer_size 1m;
  client_header_timeout 60s;
  client_body_timeout 60s;

  # Requests that any replica can answer. If a replica has not sent a single byte, another one
  # takes the request: the replica refused the connection, is stopping (503), or died.
  location ~ ^(${askingPaths.filter((path) => !kept.includes(path)).join('|')})$ {
    error_page 502 = @own;
${proxyTo('recua_replicas')}
    proxy_next_upstream error timeout http_503 non_idempotent;
  }
  location @own {
${proxyTo('recua_kept')}
    proxy_next_upstream error timeout http_503 non_idempotent;
  }
  location ~ ^(${kept.join('|')})$ {
${proxyTo('recua_kept')}
    proxy_next_upstream error timeout http_503 non_idempotent;
  }

  # A request that a replica may have begun is not resent.
  location / {
${proxyTo('recua_kept')}
    proxy_next_upstream error timeout http_503;
  }
}
`;
  return {
    text,
    notes: [
      `nginx cannot read JSON: it identifies conversations only by a header (${sessionHeaders.join(', ')}). Without one, all conversations of an API key and address go to one replica; nginx ignores prompt_cache_key, user and the messages. recua cluster config haproxy reads them.`,
      `nginx counts what a replica runs (--parallel ${parallel}) and sends more elsewhere, but does not know the average load. It does not poll /health/ready: it notices that a replica stops by a 503 or a refused connection, and then sends that request to another replica.`,
      'Files, batches and stored responses stay on the replica that made them: a client that sends no such header reaches its own as long as that replica runs. Uploads to a stopping replica get its 503.',
    ],
  };
}

const keyName = (index: number): string => (index === 0 ? '$recua_conversation' : `$recua_conversation_${index + 1}`);

const quoted = (path: string): string => (/^[\w./@+-]+$/.test(path) ? path : `"${path.replace(/["\\$]/g, '\\$&')}"`);
