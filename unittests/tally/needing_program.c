/* A program that names the library beside it as needed. */
void *launcher_needed(const char *file);

int main(int count, char **arguments) { return count > 1 && !launcher_needed(arguments[1]); }
