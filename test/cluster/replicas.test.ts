import t from 'tap';
import { readListen, readReplicas } from '#recua/cluster/replicas.js';

t.test('addresses of replicas get the port of their scheme', (t) => {
  t.strictSame(readReplicas(' http://10.0.0.1:8080/, https://b.example.com ,http://[::1]'), [
    { name: 'replica1', host: '10.0.0.1', port: 8080, secure: false },
    { name: 'replica2', host: 'b.example.com', port: 443, secure: true },
    { name: 'replica3', host: '::1', port: 80, secure: false },
  ]);
  t.end();
});

t.test('an invalid address of a replica is named', (t) => {
  const wrong: [string, RegExp][] = [
    ['', /got none/], [' ', /got none/], ['http://a:1,', /nothing between two commas/], ['10.0.0.1:8080', /no URL of http/], ['ftp://a', /no URL of http/], ['http://', /no URL/],
    ['http://a:99999', /no URL/], ['http://a:0', /port 0/], ['http://a/v1', /a path is not passed on/], ['http://a?x', /a path/], ['http://a/?', /a path/], ['http://key@a', /keys are the clients/],
    ['http://a:80,http://A', /a:80 twice/], ['http://a_%20b', /no URL|no address/], ["http://a'b", /no URL|no host name/], ['http://a b', /no URL/], ['http://a\nb', /no URL/],
    [Array.from({ length: 1001 }, (_, index) => `http://a${index}`).join(','), /at most 1000/],
  ];
  for (const [text, message] of wrong) t.throws(() => readReplicas(text), { code: 'invalid_usage', message }, JSON.stringify(text.slice(0, 40)));
  t.end();
});

t.test('the address that a balancer listens on is read', (t) => {
  t.strictSame(['127.0.0.1:8000', ':8000', '8000', '*:80', '[::1]:9', 'models.example.com:443'].map(readListen), [
    { host: '127.0.0.1', port: 8000 }, { host: '', port: 8000 }, { host: '', port: 8000 }, { host: '', port: 80 }, { host: '::1', port: 9 }, { host: 'models.example.com', port: 443 },
  ]);
  for (const text of ['', 'a', 'a:', ':0', ':65536', '::1:80', 'a b:80', 'http://a:80', '[a]:80', ':80;']) t.throws(() => readListen(text), { code: 'invalid_usage', message: /--listen/ }, text);
  t.end();
});
