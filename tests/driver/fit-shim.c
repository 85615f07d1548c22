/* fit-shim SHIM DRIVER PREFIX: give SHIM, a file, the names of functions that DRIVER has and it lacks, as the
 * agent and `ration run` do. Prints how many. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/elf-fit.h"
#include "base/fs.h"

int main(int argc, char **argv)
{
	_cleanup_elf_names_ struct elf_names names = {NULL};
	_cleanup_free_ char *data = NULL;
	size_t len;
	int r = argc == 4 ? elf_functions(argv[2], argv[3], NULL, &names) : -EINVAL;

	if (r == 0)
		r = fs_read(argv[1], (size_t)16 << 20, &data, &len);
	if (r == 0)
		r = elf_fit(data, len, &names);
	if (r > 0 && fs_write_atomic(argv[1], 0755, data, len) < 0)
		r = -EIO;
	if (r < 0) {
		fprintf(stderr, "fit-shim: %s\n", strerror(-r));
		return 1;
	}
	printf("%d\n", r);
	return 0;
}
