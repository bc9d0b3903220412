/* A program with a name that relinked programs export to their libraries. */
int tally_request_begin(void);
int tally_request_begin(void) { return 0; }

int main(void) { return 0; }
