import t from 'tap';
import { fromElsewhere, pageLines } from '#recua/cli/servers/connection.js';
import type { NetworkInterfaceInfo } from 'node:os';

const at = (address: string, internal = false): NetworkInterfaceInfo => ({
  address, internal, family: 'IPv4', netmask: '255.255.255.0', mac: '00:00:00:00:00:00', cidr: `${address}/24`,
});

t.test('a server on all addresses tells those that other machines use', (t) => {
  const interfaces = {
    lo: [at('127.0.0.1', true)],
    eth0: [at('192.168.1.5'), { ...at('fe80::1'), family: 'IPv6' as const, scopeid: 2 }],
    wlan0: [at('10.0.0.7')],
    eth1: [at('169.254.3.4')],
    docker0: [at('172.17.0.1')],
  };
  for (const host of ['0.0.0.0', '[::]']) {
    t.strictSame(fromElsewhere(`https://${host}:8443`, () => interfaces), ['https://192.168.1.5:8443', 'https://10.0.0.7:8443']);
  }
  for (const host of ['127.0.0.1', 'localhost', '192.168.1.5']) t.strictSame(fromElsewhere(`http://${host}:8080`, () => interfaces), []);
  t.strictSame(fromElsewhere('http://0.0.0.0:8080', () => ({})), []);
  t.strictSame(pageLines('http://127.0.0.1:8080'), ['In a browser: http://127.0.0.1:8080/']);
  t.equal(pageLines('http://0.0.0.0:8080')[0], 'In a browser: http://127.0.0.1:8080/');
  const fails = () => { throw new Error('uv_interface_addresses returned Unknown system error 97'); };
  t.strictSame(fromElsewhere('http://0.0.0.0:8080', fails), []);
  t.end();
});
