/*
 * Has the loader place the library's thread-local values beside those of the server's program. Otherwise it would allocate memory for
 * them when the first of them is used, and end the process if there is none.
 *
 * The loader places them there if the library needs the place of one of them before it runs: that of this value, which is there for
 * nothing else. In Rust no stable attribute says so. The loader has room for 1.5 KB of all libraries.
 */
static __thread char value __attribute__((tls_model("initial-exec")));

const void *
table_service_place_thread_local_values(void)
{
	return &value;
}
