// The environment variables of an engine process in a sandbox. Others may hold secrets, such as
// API keys, tokens of the hub, or a proxy's password.

/** Variables that Node, the addon, the system's libraries and drivers read. */
const needed = new RegExp(`^(?:${[
  'PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\\w+|TZ|TMPDIR|TMP|TEMP|LOCPATH|OPENSSL_CONF|SSL_CERT_FILE|ELECTRON_RUN_AS_NODE',
  'NODE_(?:PATH|ICU_DATA|EXTRA_CA_CERTS|NO_WARNINGS|V8_COVERAGE|DEBUG\\w*)|UV_\\w+|MALLOC_\\w+|GLIBC_\\w+|\\w+SAN_OPTIONS',
  'RECUA_(?:ADDON|CPU_\\w+)|(?:LD|XDG|OMP|GOMP|KMP|GGML|LLAMA|ROCBLAS|HIPBLASLT|ZES|UR|AMD|CUDA|NVIDIA|HIP|ROCR|ROCM|HSA|GPU|VK|OCL|MESA|DRI|RADV|ANV|ZE|SYCL|ONEAPI)_\\w+|DISPLAY|WAYLAND_DISPLAY',
].join('|')})$`);
const secret = /KEY|TOKEN|SECRET|PASS|CREDENTIAL/i;

export type Environment = Readonly<Record<string, string | undefined>>;

export function confinedEnvironment(environment: Environment = process.env): Environment {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => needed.test(name) && !secret.test(name)));
}
