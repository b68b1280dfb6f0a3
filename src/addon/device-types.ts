// What ggml's backends offer; the counterpart of native/machine/backends.h.

/** A device ggml can compute on. Memory is in bytes; 0: the backend does not report it. */
export interface Device {
  /** The name for `--device`: CPU, CUDA0, Vulkan0. */
  name: string;
  description: string;
  kind: 'cpu' | 'gpu' | 'igpu' | 'accelerator';
  backend: string;
  /** The PCI address, if there is one: two backends may have the same device. */
  id: string;
  memoryFreeBytes: number;
  memoryTotalBytes: number;
}

/**
 * A registered backend; or a library that `loadBackends` found but could not use, which has a
 * reason and no name.
 */
export interface NativeBackend {
  name: string;
  /** '' if it is compiled in. */
  file: string;
  /** The processor features that it can use, e.g. AVX2: '1'. */
  features: Record<string, string>;
  reason: string;
}
