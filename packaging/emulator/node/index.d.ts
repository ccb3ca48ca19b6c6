/** What an emulator is started with. Each is the option of the command of that name: adminPort is --admin-port. */
export interface Options {
  /** The port for clients; 0 takes a free one. Without it the port is 10002, which UseDevelopmentStorage=true reaches. */
  port?: number;
  /** The port for operators; a free one by default. */
  adminPort?: number;
  /** A directory that keeps the tables. Without it they are gone at the end. */
  data?: string;
  throttle?: string;
  inject?: string;
  seed?: number;
  /** Whether other machines may connect. The key of the development account is public. */
  expose?: boolean;
  /** Whether the explorer shows the tables, and may change them, which is the default. */
  explorer?: "write" | "read" | "off";
  /** A file for the address of the explorer. */
  explorerAddressFile?: string;
  /** The directory of PostgreSQL's programs, instead of those that came with the package. */
  postgres?: string;
}

/** Which faults are injected. */
export interface Faults {
  throttle?: string;
  inject?: string;
  seed?: number;
}

/** An emulator that runs. It ends with this process, however that ends. */
export interface Emulator {
  /** For `TableServiceClient.fromConnectionString`, with `{ allowInsecureConnection: true }`. */
  readonly connectionString: string;
  /** Where operators reach it, such as http://127.0.0.1:10003. */
  readonly adminUrl: string;
  /** Deletes all tables. */
  reset(): Promise<void>;
  /** Injects these faults and no others; without an argument none. */
  faults(faults?: Faults): Promise<void>;
  /** Ends it. */
  stop(): Promise<void>;
}

/** Starts an emulator and waits until it is ready. */
export function start(options?: Options): Promise<Emulator>;
