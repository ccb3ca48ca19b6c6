/*
 * For LD_PRELOAD: fails an allocation of one process, the n-th from now, and if wished all after it.
 *
 * The file that FAIL_ALLOCATIONS names says which. Whoever writes it and the process share it as memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

struct control
{
	int64_t pid;	/* of the process; 0 for none */
	int64_t from;	/* the number of the first allocation that fails, from 1 */
	int64_t count;	/* how many fail */
	int64_t seen;	/* how many allocations there were */
};

static volatile struct control *control;

__attribute__((constructor)) static void
begin(void)
{
	const char *path = getenv("FAIL_ALLOCATIONS");
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	if (file < 0)
		return;
	memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory != MAP_FAILED)
		control = memory;
}

static int
fails(void)
{
	int64_t number;

	if (!control || control->pid == 0 || control->pid != getpid())
		return 0;
	number = ++control->seen;
	if (number < control->from || number - control->from >= control->count)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *
malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

void *
realloc(void *memory, size_t size)
{
	return size > 0 && fails() ? NULL : __libc_realloc(memory, size);
}

void *
memalign(size_t alignment, size_t size)
{
	return fails() ? NULL : __libc_memalign(alignment, size);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int
posix_memalign(void **memory, size_t alignment, size_t size)
{
	void	   *made;

	if (fails())
		return ENOMEM;
	made = __libc_memalign(alignment, size);
	if (!made)
		return ENOMEM;
	*memory = made;
	return 0;
}
