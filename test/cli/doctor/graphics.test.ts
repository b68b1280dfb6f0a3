import t from 'tap';
import type { Test } from 'tap';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { adviseGpu } from '#recua/cli/doctor/examination.js';
import { findGraphics, fittingBackend } from '#recua/cli/doctor/graphics.js';
import type { Survey } from '#recua/engine/gateway/survey.js';

const x64 = { platform: 'linux', arch: 'x64' };

/** The files of a machine; `class` 0x03… are display controllers. */
function machine(t: Test, vendor: string, more: object = {}): string {
  return t.testdir({
    sys: { bus: { pci: { devices: { '0000:00:1f.0': { class: '0x060100\n', vendor: '0x8086\n' }, '0000:01:00.0': { class: '0x030200\n', vendor: `${vendor}\n` } } } } },
    ...more,
  });
}

t.test('an NVIDIA card with its driver needs the CUDA package', (t) => {
  const root = machine(t, '0x10de', {
    proc: { driver: { nvidia: { version: 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\nGCC version: 12\n' } } },
    bin: { 'nvidia-smi': '' },
  });
  chmodSync(join(root, 'bin', 'nvidia-smi'), 0o755);
  const graphics = findGraphics(root, { PATH: `/nowhere:${join(root, 'bin')}` });
  t.strictSame(graphics, { makers: ['NVIDIA'], nvidiaDriver: '550.54.15', nvidiaSmi: join(root, 'bin', 'nvidia-smi'), vulkanDrivers: [], renderNodes: [] });
  t.equal(fittingBackend(graphics, x64), 'cuda');
  t.equal(fittingBackend({ ...graphics, renderNodes: [{ path: '/dev/dri/renderD128', usable: true }] }, { ...x64, arch: 'arm64' }), 'vulkan', 'which has a package there');
  t.equal(fittingBackend(graphics, { ...x64, platform: 'darwin' }), undefined);
  t.equal(findGraphics(machine(t, '0x10de', { proc: { driver: { nvidia: { version: 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu\n' } } } }), {}).nvidiaDriver, '535.129.03');
  t.end();
});

t.test('another card that programs can open needs the Vulkan package', (t) => {
  const root = machine(t, '0x1002', {
    dev: { dri: { card0: '', renderD128: '' } },
    usr: { share: { vulkan: { 'icd.d': { 'radeon_icd.x86_64.json': '{}', 'README': '' } } } },
  });
  const graphics = findGraphics(root, {});
  t.strictSame(graphics, {
    makers: ['AMD'], nvidiaDriver: '', nvidiaSmi: '', vulkanDrivers: [join(root, 'usr/share/vulkan/icd.d/radeon_icd.x86_64.json')],
    renderNodes: [{ path: join(root, 'dev/dri/renderD128'), usable: true }],
  });
  t.equal(fittingBackend(graphics, x64), 'vulkan');
  t.strictSame(findGraphics(root, { VK_DRIVER_FILES: `${join(root, 'dev/dri/card0')}:/nowhere.json` }).vulkanDrivers, [join(root, 'dev/dri/card0')], 'what the loader is told');
  t.end();
});

t.test('a machine without a card, or with one whose maker has no driver, needs nothing', (t) => {
  t.equal(fittingBackend(findGraphics(machine(t, '0x1234', { dev: { dri: { renderD128: '' } } }), {}), x64), undefined);
  t.equal(fittingBackend(findGraphics(machine(t, '0x8086'), {}), x64), undefined);
  t.match(findGraphics(t.testdir(), {}), { makers: [], nvidiaDriver: '', renderNodes: [] });
  t.end();
});

t.test('the advice fits how Recua was installed', (t) => {
  const graphics = findGraphics(machine(t, '0x1002', { dev: { dri: { renderD128: '' } } }), {});
  const survey = { machine: { platform: 'linux', arch: 'x64' }, devices: [], optional: [] } as unknown as Survey;
  const place = { version: '1.2.3', llamaCpp: '' };
  const root = t.testdir({ 'CMakeLists.txt': '', 'package.json': '{}', node_modules: { recua: {} } });
  const name = '@recua/linux-x64-vulkan';
  t.strictSame(adviseGpu(survey, graphics, { ...place, root }), { package: name, command: 'RECUA_CMAKE_ARGS="-DGGML_VULKAN=ON" npm run setup' });
  t.strictSame(adviseGpu(survey, graphics, { ...place, root: join(root, 'node_modules', 'recua') }), { package: name, command: `npm install ${name}@1.2.3` });
  t.equal(adviseGpu({ ...survey, optional: [{ backend: 'vulkan' }] } as unknown as Survey, graphics, { ...place, root }), undefined, 'it is there, and the doctor says why it is not used');
  t.end();
});
