/* Stands in for libhasten.so where a test needs a library that accelerates nothing. */
int preload_nothing(void);
int preload_nothing(void)
{
	return 0;
}
