/* Has a name that a relinked program gives to its libraries. */
int tally_request_begin(void);
int tally_request_begin(void) { return 0; }

int main(void) { return 0; }
