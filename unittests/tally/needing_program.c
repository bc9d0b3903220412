/* A program that needs the library in its own folder. */
void *launcher_needed(const char *file);

int main(int count, char **arguments) { return count > 1 && !launcher_needed(arguments[1]); }
