# The formula for a tap of Homebrew: packaging/recipes.py fills in what is in braces.
# What kdump needs is installed as requirements/base.txt of the source distribution locks it.
class KafkaKdump < Formula
  include Language::Python::Virtualenv

  desc "${DESCRIPTION}"
  homepage "${REPOSITORY}"
  url "${URL}"
  version "${VERSION}"
  sha256 "${SHA256}"
  license "Apache-2.0"

  depends_on :linux # macOS is not tested
  depends_on "python@${PYTHON}"

  def install
    virtualenv_create(libexec, "python${PYTHON}", without_pip: false)
    pip = [libexec/"bin/python", "-m", "pip", "--no-cache-dir", "install"]
    system(*pip, "--require-hashes", "-r", "requirements/base.txt")
    system(*pip, "--no-deps", buildpath)
    bin.install_symlink libexec/"bin/kdump", libexec/"bin/kafka-kdump"
    man1.install_symlink Dir[libexec/"share/man/man1/*.1"]
    man5.install_symlink Dir[libexec/"share/man/man5/*.5"]
    man7.install_symlink Dir[libexec/"share/man/man7/*.7"]
  end

  test do
    assert_match "kdump ${VERSION} (kernel compiled)", shell_output("#{bin}/kdump --version")
  end
end
