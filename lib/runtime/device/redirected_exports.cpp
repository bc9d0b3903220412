#include "device/redirected_exports.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tally::runtime {
namespace {

using Address = std::uintptr_t;

/// mostLookedAt: how much allocated memory is searched, in about a second. mostUsed: a larger
/// mapping is reserved, not used, such as a sanitizer's shadow.
constexpr std::size_t mostLookedAt = std::size_t{16} << 30, mostUsed = std::size_t{64} << 30;

/// The begin of the page that contains `address`.
Address pageOf(Address address) {
  static const Address size = static_cast<Address>(sysconf(_SC_PAGESIZE));
  return address & ~(size - 1);
}

/// A loaded object of the process, described by its program headers and dynamic section.
class LoadedObject {
public:
  LoadedObject(const dl_phdr_info &info)
      : base(info.dlpi_addr), headers(info.dlpi_phdr, info.dlpi_phnum) {
    for (const ElfW(Phdr) &each : headers)
      if (each.p_type == PT_DYNAMIC)
        dynamic = reinterpret_cast<const ElfW(Dyn) *>(base + each.p_vaddr);
    strings = at<char>(DT_STRTAB);
  }

  Address loadAddress() const { return base; }

  /// Calls `use` with the text of each entry with `tag`.
  template <class Use> void forEachText(ElfW(Sxword) tag, Use use) const {
    for (const ElfW(Dyn) *each = dynamic; strings && each && each->d_tag != DT_NULL; ++each)
      if (each->d_tag == tag)
        use(std::string_view(strings + each->d_un.d_val));
  }

  std::span<ElfW(Sym)> symbols() const {
    auto *first = at<ElfW(Sym)>(DT_SYMTAB);
    return first ? std::span(first, symbolCount()) : std::span<ElfW(Sym)>();
  }
  std::string_view nameOf(const ElfW(Sym) & symbol) const { return strings + symbol.st_name; }

  /// Calls `use` with each word of the object's variables: the memory that the loader leaves
  /// writable.
  template <class Use> void forEachVariable(Use use) const {
    auto readOnly = std::find_if(headers.begin(), headers.end(), [](const ElfW(Phdr) & each) {
      return each.p_type == PT_GNU_RELRO;
    });
    Address from = 0, to = 0;
    if (readOnly != headers.end()) {
      from = base + readOnly->p_vaddr;
      to = from + readOnly->p_memsz;
    }
    auto see = [&](Address first, Address end) {
      first = (first + sizeof first - 1) & ~(sizeof first - 1);
      for (; first + sizeof first <= end; first += sizeof first)
        use(reinterpret_cast<Address *>(first));
    };
    for (const ElfW(Phdr) &each : headers) {
      if (each.p_type != PT_LOAD || (each.p_flags & PF_W) == 0)
        continue;
      Address first = base + each.p_vaddr, end = first + each.p_memsz;
      see(first, std::clamp(from, first, end));
      see(std::clamp(to, first, end), end);
    }
  }

  /// Calls `use` with each word that relocation has filled with a symbol's address.
  template <class Use> void forEachSlot(Use use) const {
    auto see = [&](ElfW(Sxword) table, ElfW(Sxword) size) {
      auto *first = at<ElfW(Rela)>(table);
      for (const ElfW(Rela) &each : std::span(first, first ? value(size) / sizeof *first : 0))
        if (isSlot(ELF64_R_TYPE(each.r_info)))
          use(reinterpret_cast<Address *>(base + each.r_offset));
    };
    see(DT_RELA, DT_RELASZ);
    if (value(DT_PLTREL) == DT_RELA)
      see(DT_JMPREL, DT_PLTRELSZ);
  }

  /// Protection (PROT_...) of the page that contains `address`; 0: it is not the object's.
  int protectionOf(Address address) const {
    int protection = 0;
    for (const ElfW(Phdr) &each : headers) {
      if (address - (base + each.p_vaddr) >= each.p_memsz)
        continue;
      if (each.p_type == PT_LOAD)
        protection = (each.p_flags & PF_R ? PROT_READ : 0) |
                     (each.p_flags & PF_W ? PROT_WRITE : 0) | (each.p_flags & PF_X ? PROT_EXEC : 0);
      // This header comes after those of type PT_LOAD. The loader has made its whole pages
      // read-only.
      if (each.p_type == PT_GNU_RELRO && address < pageOf(base + each.p_vaddr + each.p_memsz))
        protection &= ~PROT_WRITE;
    }
    return protection;
  }

private:
  static bool isSlot(unsigned type) {
#if defined(__x86_64__)
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
#elif defined(__aarch64__)
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
#else
#error "the relocations of x86-64 and AArch64 are known"
#endif
  }

  ElfW(Xword) value(ElfW(Sxword) tag) const {
    for (const ElfW(Dyn) *each = dynamic; each && each->d_tag != DT_NULL; ++each)
      if (each->d_tag == tag)
        return each->d_un.d_val;
    return 0;
  }
  /// The loader adds the load address to the addresses in a dynamic section that it can write to.
  template <class T> T *at(ElfW(Sxword) tag) const {
    Address found = value(tag);
    return reinterpret_cast<T *>(found != 0 && found < base ? found + base : found);
  }

  std::size_t symbolCount() const {
    if (auto *hash = at<std::uint32_t>(DT_HASH))
      return hash[1];
    auto *hash = at<std::uint32_t>(DT_GNU_HASH);
    if (!hash)
      return 0;
    std::uint32_t buckets = hash[0], firstHashed = hash[1], words = hash[2];
    const std::uint32_t *bucket = hash + 4 + words * (sizeof(Address) / sizeof *hash);
    const std::uint32_t *chain = bucket + buckets;
    std::uint32_t last = *std::max_element(bucket, bucket + buckets);
    if (last < firstHashed)
      return firstHashed;
    while ((chain[last - firstHashed] & 1) == 0) // the last symbol of a chain is marked
      ++last;
    return last + 1;
  }

  Address base;
  std::span<const ElfW(Phdr)> headers;
  const ElfW(Dyn) *dynamic = nullptr;
  const char *strings = nullptr;
};

/// Calls `use` with each object of the namespace, under the loader's lock.
template <class Use> void forEachObject(Use use) {
  auto see = [](dl_phdr_info *info, std::size_t, void *data) {
    (*static_cast<Use *>(data))(LoadedObject(*info));
    return 0;
  };
  dl_iterate_phdr(see, &use);
}

/// Makes words writable for as long as it lives.
class Writable {
public:
  Writable(const LoadedObject &object, Address first, std::size_t bytes)
      : protection(object.protectionOf(first)) {
    if ((protection & PROT_WRITE) != 0)
      return;
    begin = reinterpret_cast<void *>(pageOf(first));
    size = first + bytes - pageOf(first); // mprotect takes whole pages
    // Keep the other protections: threads may be running code of these pages.
    error = mprotect(begin, size, protection | PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
  }
  ~Writable() {
    if (begin && error == 0)
      mprotect(begin, size, protection);
  }
  Writable(const Writable &) = delete;
  Writable &operator=(const Writable &) = delete;

  int error = 0; ///< of mprotect

private:
  int protection;
  void *begin = nullptr;
  std::size_t size = 0;
};

/// Calls `use` with each function that the object exports, and its address.
template <class Use> void forEachFunction(const LoadedObject &object, Use use) {
  for (ElfW(Sym) &each : object.symbols())
    if (each.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(each.st_info) == STT_FUNC)
      use(each, object.loadAddress() + each.st_value);
}

using Replaced = std::unordered_map<Address, Address>;

Replaced tableOf(const std::vector<Redirected> &functions) {
  Replaced table;
  for (const Redirected &each : functions)
    table.emplace(reinterpret_cast<Address>(each.from), reinterpret_cast<Address>(each.to));
  return table;
}

/// The library's load address; an address of no object if `library` is no handle.
Address loadAddressOf(void *library) {
  link_map *map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_addr : ~Address{0};
}

/// Other threads may read the word meanwhile.
void write(Address *word, Address value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

Error refused(const char *what, int number) {
  return {std::string(what) + " cannot be written to: " + std::strerror(number)};
}

} // namespace

Result<std::vector<Redirected>> redirectExports(void *library, const Replacement &replacement,
                                                const std::function<void()> &ready) {
  Address base = loadAddressOf(library);
  std::vector<Redirected> functions;
  std::vector<ElfW(Sym) *> symbols;
  Error failed;
  bool isWritten = true;
  auto fail = [&](const char *what, int number) {
    failed = refused(what, number);
    isWritten = false;
  };
  forEachObject([&](const LoadedObject &object) {
    if (object.loadAddress() != base)
      return;
    forEachFunction(object, [&](ElfW(Sym) & symbol, Address address) {
      auto *function = reinterpret_cast<void *>(address);
      void *instead = replacement(object.nameOf(symbol), function);
      if (instead == function)
        return;
      symbols.push_back(&symbol);
      functions.push_back({function, instead});
    });
    ready();
    std::span<ElfW(Sym)> table = object.symbols();
    Writable opened(object, reinterpret_cast<Address>(table.data()), table.size_bytes());
    if (opened.error != 0)
      return fail("the symbol table", opened.error);
    for (std::size_t i = 0; i < symbols.size();
         ++i) // a difference wraps, here and where it is used
      write(&symbols[i]->st_value, reinterpret_cast<Address>(functions[i].to) - base);
  });
  Replaced replaced = tableOf(functions);
  forEachObject([&](const LoadedObject &object) {
    if (object.loadAddress() == base || !isWritten)
      return;
    object.forEachSlot([&](Address *slot) {
      auto found = replaced.find(*slot);
      if (found == replaced.end())
        return;
      Writable opened(object, reinterpret_cast<Address>(slot), sizeof *slot);
      if (opened.error == 0)
        write(slot, found->second);
      else
        fail("an offset table", opened.error);
    });
  });
  if (!isWritten)
    return failed;
  return functions;
}

void redirectCopies(void *library, const std::vector<Redirected> &functions) {
  Replaced replaced = tableOf(functions);
  Address base = loadAddressOf(library), self = reinterpret_cast<Address>(&redirectCopies);
  // Compare with the range of addresses first: nearly no word is in it.
  auto [least, greatest] = std::minmax_element(functions.begin(), functions.end(),
                                               [](auto &a, auto &b) { return a.from < b.from; });
  if (functions.empty())
    return;
  Address first = reinterpret_cast<Address>(least->from);
  Address span = reinterpret_cast<Address>(greatest->from) - first;
  forEachObject([&](const LoadedObject &object) {
    if (object.loadAddress() == base || object.protectionOf(self) != 0)
      return;
    object.forEachVariable([&](Address *word) {
      Address value = __atomic_load_n(word, __ATOMIC_RELAXED);
      if (value - first > span)
        return;
      if (auto found = replaced.find(value); found != replaced.end())
        __atomic_compare_exchange_n(word, &value, found->second, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
    });
  });
}

bool hasAllocatedCopies(void *library, bool (*isMeant)(std::string_view name)) {
  // Static, since the search would find the addresses on the heap or on a stack.
  static std::array<Address, 1024> addresses;
  static std::array<Address, 8192> words;
  std::size_t count = 0;
  Address base = loadAddressOf(library);
  forEachObject([&](const LoadedObject &object) {
    if (object.loadAddress() == base)
      forEachFunction(object, [&](ElfW(Sym) & symbol, Address address) {
        if (count < addresses.size() && isMeant(object.nameOf(symbol)))
          addresses[count++] = address;
      });
  });
  std::sort(addresses.begin(), addresses.begin() + count);
  if (count == 0)
    return false;
  auto isOfObject = [](Address address) {
    bool any = false;
    forEachObject([&](const LoadedObject &object) { any |= object.protectionOf(address) != 0; });
    return any;
  };
  auto isCopy = [&](Address value) {
    return value - addresses[0] <= addresses[count - 1] - addresses[0] &&
           std::binary_search(addresses.begin(), addresses.begin() + count, value);
  };
  // Read memory through a file: another thread may unmap it meanwhile.
  std::FILE *maps = std::fopen("/proc/self/maps", "re");
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  bool any = !maps || memory < 0;
  std::size_t looked = 0;
  char line[512];
  while (!any && std::fgets(line, sizeof line, maps)) {
    Address first = 0, end = 0;
    char use[5] = "", name[256] = "";
    if (std::sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &first, &end, use, name) < 3 ||
        std::strcmp(use, "rw-p") != 0 || (name[0] != 0 && std::strcmp(name, "[heap]") != 0) ||
        end - first > mostUsed)
      continue;
    looked += end - first;
    any |= looked > mostLookedAt;
    while (first < end && !any) {
      std::size_t wanted = std::min<std::size_t>(end - first, sizeof words);
      ssize_t got = pread(memory, words.data(), wanted, static_cast<off_t>(first));
      for (std::size_t i = 0; got > 0 && i < static_cast<std::size_t>(got) / sizeof(Address); ++i)
        any |= isCopy(words[i]) && !isOfObject(first + i * sizeof(Address));
      first += wanted;
    }
  }
  if (maps)
    std::fclose(maps);
  if (memory >= 0)
    close(memory);
  return any;
}

unsigned objectsNamed(std::string_view soname) {
  unsigned count = 0;
  forEachObject([&](const LoadedObject &object) {
    object.forEachText(DT_SONAME, [&](std::string_view name) { count += name == soname; });
  });
  return count;
}

} // namespace tally::runtime
